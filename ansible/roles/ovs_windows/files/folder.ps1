# folder.ps1: a folder that only LocalSystem and the administrators can open. One that is there already becomes such a
# folder; the result says whether somebody else could write in it before.
[CmdletBinding(SupportsShouldProcess)]
param(
    [Parameter(Mandatory)][string]$Folder
)
$ErrorActionPreference = 'Stop'
$Ansible.Changed = $false
$Ansible.Result = @{ open = $false }
# As the agent has it (folderAccess in node/private_windows.go).
$closed = New-Object Security.AccessControl.DirectorySecurity
$closed.SetSecurityDescriptorSddlForm('O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)', 'Owner, Access')
if (-not (Test-Path -LiteralPath $Folder)) {
    $Ansible.Changed = $true
    if (-not $PSCmdlet.ShouldProcess($Folder, 'make')) {
        return
    }
    $null = [IO.Directory]::CreateDirectory($Folder, $closed)
}
# Somebody else may have made it a moment ago, so it is looked at in either case.
$item = Get-Item -LiteralPath $Folder -Force
if ($item -isnot [IO.DirectoryInfo] -or $item.Attributes.HasFlag([IO.FileAttributes]::ReparsePoint)) {
    throw "$Folder is no folder; remove it"
}
# Groups have other names in other languages: these are LocalSystem, the administrators, Windows' own installer, and
# whoever makes a file there, which only those can do whom another rule lets.
$own = 'S-1-5-18', 'S-1-5-32-544'
$trusted = $own + 'S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464', 'S-1-3-0'
$reading = [int][Security.AccessControl.FileSystemRights]'ReadAndExecute, Synchronize'
$access = $item.GetAccessControl('Owner, Access')
$owner = $access.GetOwner([Security.Principal.SecurityIdentifier]).Value
$rules = @($access.GetAccessRules($true, $true, [Security.Principal.SecurityIdentifier]))
$writers = @($rules | Where-Object {
        $_.AccessControlType -eq 'Allow' -and $_.IdentityReference.Value -notin $trusted -and
        ([int]$_.FileSystemRights -band -bnot $reading) -ne 0
    })
$Ansible.Result.open = $owner -notin $trusted -or $writers.Count -gt 0
$strangers = @($rules | Where-Object { $_.IdentityReference.Value -notin $own })
if ($owner -ne 'S-1-5-32-544' -or -not $access.AreAccessRulesProtected -or $strangers.Count -gt 0) {
    $Ansible.Changed = $true
    if ($PSCmdlet.ShouldProcess($Folder, 'close')) {
        $item.SetAccessControl($closed)
    }
}
