package node

import "os"

// privateFolder makes a folder that is the agent's user's alone.
func privateFolder(path string) error { return os.MkdirAll(path, 0o700) }
