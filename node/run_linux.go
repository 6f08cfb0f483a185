package node

func newPlatform(c Config) (ownPlatform, error) { return NewLinux(c.DatapathType) }
