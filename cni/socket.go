package cni

// Where agent and plugin meet when nobody says otherwise: a unix socket, and a named pipe.
const (
	LinuxSocket   = "/run/weft/cni.sock"
	WindowsSocket = `\\.\pipe\weft-cni`
)
