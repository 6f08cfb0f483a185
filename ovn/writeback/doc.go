// Package writeback writes to objects what the translation has to say of them: annotations, statuses and Events.
//
// A [Writer] writes beside the rows: neither waits for the other. Of what is wanted of an object only the newest
// counts. What cannot be written rests for a while, and stands in nobody's way.
package writeback
