// Package sysdump collects what support needs of a cluster into one archive, by a user's rights and without secrets.
//
// Each part of the archive is read by itself, with bounds of size and of time. A part that fails is told in the index,
// and the rest is collected. Of an object of Kubernetes the fields of a list are kept, and of annotations only Weft's
// have their values. Secrets and ConfigMaps are not read. All that is kept goes through package redact, too.
package sysdump
