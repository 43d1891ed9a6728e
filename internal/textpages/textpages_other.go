//go:build !linux

package textpages

// Release does nothing: other systems have no such call, or other rules for it.
func Release() error { return nil }
