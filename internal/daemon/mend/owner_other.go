//go:build !unix

package mend

// owned: there are no owners to compare here.
func owned(string) error { return nil }
