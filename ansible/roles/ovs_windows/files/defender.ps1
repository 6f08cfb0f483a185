# defender.ps1: programs whose files Windows Defender does not scan, or does again. Without Defender there is nothing to do.
[CmdletBinding(SupportsShouldProcess)]
param(
    [Parameter(Mandatory)][AllowEmptyCollection()][string[]]$Program,
    [Parameter(Mandatory)][ValidateSet('present', 'absent')][string]$State
)
$ErrorActionPreference = 'Stop'
$Ansible.Changed = $false
if (-not (Get-Command -Name Get-MpPreference -ErrorAction SilentlyContinue)) {
    return
}
$have = @((Get-MpPreference).ExclusionProcess)
foreach ($one in $Program) {
    if (($have -contains $one) -eq ($State -eq 'present')) {
        continue
    }
    $Ansible.Changed = $true
    if ($PSCmdlet.ShouldProcess($one, "exclusion $State")) {
        if ($State -eq 'present') {
            Add-MpPreference -ExclusionProcess $one
        } else {
            Remove-MpPreference -ExclusionProcess $one
        }
    }
}
