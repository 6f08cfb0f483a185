# test-signing.ps1: whether Windows takes drivers that are signed for tests, from its next start on.
[CmdletBinding(SupportsShouldProcess)]
param(
    [Parameter(Mandatory)][ValidateSet('on', 'off')][string]$State
)
$ErrorActionPreference = 'Stop'
$Ansible.Changed = $false
# What bcdedit prints is in Windows' own language, so it is only compared.
function Read-Boot {
    $lines = @(bcdedit.exe /enum '{current}')
    if ($LASTEXITCODE -ne 0) {
        throw "bcdedit /enum {current}: $lines"
    }
    $lines -join "`n"
}
$before = Read-Boot
if ($PSCmdlet.ShouldProcess('{current}', "testsigning $State")) {
    $lines = @(bcdedit.exe /set testsigning $State)
    if ($LASTEXITCODE -ne 0) {
        throw "bcdedit /set testsigning $($State): $lines"
    }
    $Ansible.Changed = (Read-Boot) -ne $before
}
