// Package watch keeps the objects that the API server has, cut down by package objects, and collects which of them have
// changed.
//
// [Informers] keep the objects of the kinds that the translation takes. A kind that the API server does not know yet is
// looked for again now and then. A [Queue] has each object that has changed once, however often it has, until a leader
// takes it.
package watch
