package hns

import (
	_ "github.com/Microsoft/go-winio"
	_ "github.com/Microsoft/hcsshim"
	_ "github.com/Microsoft/hcsshim/hcn"
	_ "golang.org/x/sys/windows/svc/eventlog"
	_ "golang.org/x/sys/windows/svc/mgr"
	_ "golang.zx2c4.com/wireguard/windows/tunnel/winipcfg"
)
