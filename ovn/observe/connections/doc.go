// Package connections asks the nodes' agents for the connections that their datapaths remember, and the databases and
// the API server for the names of their ends. What they say becomes flows by package flows.
package connections
