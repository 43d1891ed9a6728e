//go:build !race

package cluster

const slow = false
