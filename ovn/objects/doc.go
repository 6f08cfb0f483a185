// Package objects has the Kubernetes objects that the controller watches, cut down to what the translation reads.
//
// kinds.go lists the kinds, and where the API server has each. A file for each kind has its trimmed type, the function
// that reads it, and what makes two states of it equal. [Kind.Trim] is the informers' transform, and [Kind.Changed]
// says whether an update makes work. A kind need not stand here: [NewKind] makes one anywhere. A [Problem] is what the
// owner of an object is told.
//
// Nothing here knows of OVN's rows. Of packages below ovn it imports policy and ipam.
package objects
