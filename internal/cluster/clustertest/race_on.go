//go:build race

package clustertest

// slow: the race detector makes the simulations, which have one goroutine, ten
// times as slow.
const slow = true
