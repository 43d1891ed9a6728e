package clustertest

// Seeds of a simulation: the first n, and where that is slow the first few.
func Seeds(n uint64) uint64 {
	if slow {
		return max(n/5, 3)
	}
	return n
}
