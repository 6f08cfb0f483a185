// Package sysdump collects what support needs of a cluster into one archive, by a user's rights and without secrets.
//
// Each part of the archive is read by itself, with bounds of size and of time. A part that fails is told in the index,
// and the rest is collected. What is read of an object of Kubernetes is a list of fields, and of annotations only Weft's
// have their values. Secrets, ConfigMaps and specs of pods are not read. What is read goes through package redact, too.
package sysdump
