// Package reference makes the pages in docs/reference of what the code says about itself: the meaning of a key is its
// flag's, that of a metric its help. So no page lacks an entry, and none has another meaning than the code's.
//
// Tests make the pages, and fail if the files differ. With -update they write them anew, as `make generate` does.
package reference
