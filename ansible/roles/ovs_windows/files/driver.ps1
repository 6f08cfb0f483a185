# driver.ps1: the driver that Windows has under a service's name: its file, with version and SHA-256.
[CmdletBinding(SupportsShouldProcess)]
param(
    [Parameter(Mandatory)][string]$Service,
    [Parameter(Mandatory)][string]$Driver
)
$ErrorActionPreference = 'Stop'
$Ansible.Changed = $false
$Ansible.Result = @{ exists = $false; path = ''; version = ''; checksum = '' }
$key = "HKLM:\SYSTEM\CurrentControlSet\Services\$Service"
if (-not (Test-Path -LiteralPath $key)) {
    return
}
# The kernel's names of files, read as the doctor reads them (driverPath in node/doctor/host_windows.go).
$image = [string](Get-ItemProperty -LiteralPath $key).ImagePath -replace '^\\\?\?\\', '' -replace '^\\SystemRoot\\', ''
if (-not $image) {
    $image = "System32\drivers\$Driver.sys"
}
if (-not [IO.Path]::IsPathRooted($image)) {
    $image = Join-Path $env:SystemRoot $image
}
$Ansible.Result.exists = $true
$Ansible.Result.path = $image
if (Test-Path -LiteralPath $image -PathType Leaf) {
    $version = [Diagnostics.FileVersionInfo]::GetVersionInfo($image)
    if ($version.FileVersion) {
        $Ansible.Result.version = "$($version.FileMajorPart).$($version.FileMinorPart).$($version.FileBuildPart)"
    }
    $Ansible.Result.checksum = (Get-FileHash -LiteralPath $image -Algorithm SHA256).Hash.ToLower()
}
