service weft-node is stopped
weft node release --config C:\ProgramData\weft\weft.yaml
weft service uninstall
firewall rule "weft GENEVE" is removed
firewall rule "weft chassis host" is removed
firewall rule "weft kubelet" is removed
C:\Program Files\containerd\cni\bin\weft-cni.exe is removed
C:\Program Files\weft is removed
C:\ProgramData\weft is removed
