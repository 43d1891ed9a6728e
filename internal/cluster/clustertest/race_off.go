//go:build !race

package clustertest

const slow = false
