package turn

// AfterNeeds returns the list in its order, but what others of it need (to be near it) before
// these. Of a circle the first comes last. It leaves out needs that are not listed.
func AfterNeeds(list []string, needs func(string) []string) []string {
	const listed, done = 1, 2
	state := make(map[string]int, len(list))
	for _, key := range list {
		state[key] = listed
	}
	out := make([]string, 0, len(list))
	var visit func(key string)
	visit = func(key string) {
		if state[key] != listed {
			return
		}
		state[key] = done
		for _, to := range needs(key) {
			visit(to)
		}
		out = append(out, key)
	}
	for _, key := range list {
		visit(key)
	}
	return out
}
