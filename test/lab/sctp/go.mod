module github.com/ishidawataru/sctp

go 1.25.0

require golang.org/x/net v0.47.0

require golang.org/x/sys v0.38.0 // indirect
