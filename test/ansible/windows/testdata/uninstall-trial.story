service weft-node is stopped
weft node release --config C:\ProgramData\weft\weft.yaml
weft service uninstall
firewall rule "weft GENEVE" is removed
firewall rule "weft chassis host" is removed
firewall rule "weft kubelet" is removed
certificate of the driver in TrustedPublisher: absent
certificate of the driver in Root: absent
bcdedit /set testsigning off
service ovs-vswitchd is removed
service ovsdb-server is removed
netcfg -u OVSExt
Defender's exclusion of C:\openvswitch\usr\sbin\ovsdb-server.exe: absent
C:\openvswitch is removed
C:\Program Files\containerd\cni\bin\weft-cni.exe is removed
C:\Program Files\weft is removed
C:\ProgramData\weft is removed
