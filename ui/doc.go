// Package ui is the page that a user looks at a cluster's network with, and the server of it on the user's own machine.
//
// A browser has no credentials for an API server. So the server is the user's own client: it listens on loopback alone,
// and asks the API server by the user's kubeconfig. A page of another site, another user of the machine and a name that
// is bound anew to 127.0.0.1 (DNS rebinding) get nothing of it:
//
//   - Requests must name a loopback host and the server's own port, so no foreign name leads to it.
//   - Each question needs a token, in a header that other pages cannot send.
//   - The page gets the token for the key in its address. A key counts once, so an address in a list of processes or in
//     the history of a browser is worthless after the page was opened.
//   - What can be asked is a list of [questions], and no path of the API server.
package ui
