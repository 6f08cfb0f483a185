# signature.ps1: who signed the files of a driver, and what Windows says of each signature.
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
        @{ name = $_.Name; status = $signature.Status.ToString(); signer = $signer; thumbprint = $thumbprint }
    })
$Ansible.Changed = $false
