// Package httpserver makes the HTTP servers of all of Weft's programs: each has bounds for what clients make it hold,
// and for how long. Nobody else makes an [http.Server], and a test says so. What a program tells its operator's tools
// is [Probes].
package httpserver
