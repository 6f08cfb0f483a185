folder C:\Program Files\weft-ovs-package\unpacked
file C:\Program Files\weft-ovs-package\openvswitch.zip
C:\Program Files\weft-ovs-package\openvswitch.zip is unpacked
folder C:\openvswitch, closed to users
folder C:\openvswitch\var\run\openvswitch, closed to users
files from C:\Program Files\weft-ovs-package\unpacked\openvswitch\ to C:\openvswitch\
file C:\openvswitch\weft-package.json
C:\Program Files\weft-ovs-package is removed
certificate of the driver in TrustedPublisher: present
certificate of the driver in Root: present
bcdedit /set testsigning on
restart
netcfg -l C:\openvswitch\driver\ovsext.inf -c s -i OVSExt
Defender's exclusion of C:\openvswitch\usr\sbin\ovsdb-server.exe: present
folder C:\openvswitch\etc\openvswitch
folder C:\openvswitch\var\log\openvswitch
ovsdb-tool create C:\openvswitch\etc\openvswitch\conf.db C:\openvswitch\usr\share\openvswitch\vswitch.ovsschema
service ovsdb-server: "C:\openvswitch\usr\sbin\ovsdb-server.exe" "C:\openvswitch\etc\openvswitch\conf.db" -vfile:info --log-file --pidfile --remote=punix:db.sock --service --service-monitor
service ovs-vswitchd: "C:\openvswitch\usr\sbin\ovs-vswitchd.exe" -vfile:info --log-file --pidfile --service --service-monitor
folder C:\ProgramData\weft, closed to users
folder C:\Program Files\weft
folder C:\Program Files\containerd\cni\bin
file C:\Program Files\weft\weft.exe
file C:\Program Files\containerd\cni\bin\weft-cni.exe
file C:\ProgramData\weft\weft.yaml
firewall rule "weft GENEVE": udp 6081 from any
firewall rule "weft chassis host": tcp 16642 from 172.30.0.1,fd30::2
firewall rule "weft kubelet": tcp 10250 from any
weft service install -- --config C:\ProgramData\weft\weft.yaml
file C:\ProgramData\weft\ca.crt
file C:\ProgramData\weft\tls.crt
file C:\ProgramData\weft\tls.key
file C:\ProgramData\weft\weft-node.started
weft service start --ready 300s
