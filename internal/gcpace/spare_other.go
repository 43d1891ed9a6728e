//go:build !linux

package gcpace

// spare is not known.
func spare() uint64 { return 0 }
