folder C:\Program Files\weft-ovs-package\unpacked
file C:\Program Files\weft-ovs-package\openvswitch.msi
folder C:\openvswitch, closed to users
folder C:\ProgramData\openvswitch, closed to users
the package openvswitch.msi is installed with INSTALLDIR=C:\openvswitch
file C:\openvswitch\weft-package.json
C:\Program Files\weft-ovs-package is removed
Defender's exclusion of C:\openvswitch\bin\ovsdb-server.exe: present
service ovsdb-server is changed
service ovs-vswitchd is changed
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
