//go:build !unix

package repair

// owned: there are no owners to compare here.
func owned(string) error { return nil }
