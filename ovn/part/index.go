package part

// Enter puts a name into an index of names.
func Enter[K comparable](index map[K]map[string]struct{}, at K, name string) {
	if index[at] == nil {
		index[at] = map[string]struct{}{}
	}
	index[at][name] = struct{}{}
}

// Leave takes a name out of an index.
func Leave[K comparable](index map[K]map[string]struct{}, at K, name string) {
	if delete(index[at], name); len(index[at]) == 0 {
		delete(index, at)
	}
}
