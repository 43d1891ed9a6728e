//go:build !linux

package labcmd

// testBed is none: there is no lab without network namespaces.
func testBed(func(string) string) *Lab { return nil }
