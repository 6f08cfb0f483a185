module github.com/ishidawataru/sctp

go 1.26.0

require golang.org/x/net v0.59.0

require golang.org/x/sys v0.49.0 // indirect
