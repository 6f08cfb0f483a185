package node

import "errors"

func newPlatform(Config) (ownPlatform, error) {
	return nil, errors.New("this build has no platform for Windows yet")
}
