// Package central tests the role ovn_central by itself: what it asks of the databases' clusters before it changes them,
// and what it does to real ovsdb-servers, which run on this machine. No lab is needed.
package central
