folder C:\Program Files\weft-ovs-package\unpacked
file C:\Program Files\weft-ovs-package\openvswitch.zip
C:\Program Files\weft-ovs-package\openvswitch.zip is unpacked
service weft-node is stopped
weft node release --config C:\ProgramData\weft\weft.yaml
service ovs-vswitchd is removed
service ovsdb-server is removed
netcfg -u OVSExt
Defender's exclusion of C:\openvswitch\usr\sbin\ovsdb-server.exe: absent
C:\openvswitch is removed
folder C:\openvswitch, closed to users
files from C:\Program Files\weft-ovs-package\unpacked\openvswitch\ to C:\openvswitch\
file C:\openvswitch\weft-package.json
C:\Program Files\weft-ovs-package is removed
netcfg -l C:\openvswitch\driver\ovsext.inf -c s -i OVSExt
Defender's exclusion of C:\openvswitch\usr\sbin\ovsdb-server.exe: present
folder C:\openvswitch\etc\openvswitch
folder C:\openvswitch\var\log\openvswitch
folder C:\openvswitch\var\run\openvswitch
ovsdb-tool create C:\openvswitch\etc\openvswitch\conf.db C:\openvswitch\usr\share\openvswitch\vswitch.ovsschema
service ovsdb-server: "C:\openvswitch\usr\sbin\ovsdb-server.exe" "C:\openvswitch\etc\openvswitch\conf.db" -vfile:info --log-file --pidfile --remote=punix:db.sock --service --service-monitor
service ovs-vswitchd: "C:\openvswitch\usr\sbin\ovs-vswitchd.exe" -vfile:info --log-file --pidfile --service --service-monitor
file C:\Program Files\weft\weft.exe
weft service start --ready 300s
