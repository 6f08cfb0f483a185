# load-balancers.ps1: removes the load balancers that kube-proxy has left in HNS.
[CmdletBinding(SupportsShouldProcess)]
param()
$ErrorActionPreference = 'Stop'
$Ansible.Changed = $false
if (-not (Get-Command -Name Get-HnsPolicyList -ErrorAction SilentlyContinue)) {
    return
}
foreach ($list in @(Get-HnsPolicyList)) {
    $Ansible.Changed = $true
    if ($PSCmdlet.ShouldProcess($list.ID, 'remove the load balancer')) {
        $list | Remove-HnsPolicyList
    }
}
