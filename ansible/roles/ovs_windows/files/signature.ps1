# signature.ps1: who signed the files of a driver, what Windows says of each signature, and which files they are.
[CmdletBinding(SupportsShouldProcess)]
param(
    [Parameter(Mandatory)][string]$Folder,
    [Parameter(Mandatory)][string]$Driver
)
$ErrorActionPreference = 'Stop'
$files = @(Get-ChildItem -LiteralPath $Folder -File | Where-Object Name -In "$Driver.sys", "$Driver.cat")
$Ansible.Result = @($files | ForEach-Object {
        $signature = Get-AuthenticodeSignature -LiteralPath $_.FullName
        $signer = $thumbprint = ''
        if ($signature.SignerCertificate) {
            $signer = $signature.SignerCertificate.GetNameInfo([Security.Cryptography.X509Certificates.X509NameType]::SimpleName, $false)
            $thumbprint = $signature.SignerCertificate.Thumbprint
        }
        $version = ''
        $has = [Diagnostics.FileVersionInfo]::GetVersionInfo($_.FullName)
        if ($has.FileVersion) {
            $version = "$($has.FileMajorPart).$($has.FileMinorPart).$($has.FileBuildPart)"
        }
        @{
            name = $_.Name; status = $signature.Status.ToString(); signer = $signer; thumbprint = $thumbprint; version = $version
            checksum = (Get-FileHash -LiteralPath $_.FullName -Algorithm SHA256).Hash.ToLower()
        }
    })
$Ansible.Changed = $false
