package unixctl

// Sockets are those at which a daemon may answer that has its files in one of the folders. On Windows a name has no
// process's number (unixctl_server_create in lib/unixctl.c of Open vSwitch).
func Sockets(folders []string, daemon string) []string {
	var paths []string
	for _, folder := range folders {
		paths = append(paths, folder+`\`+daemon+".ctl")
	}
	return paths
}
