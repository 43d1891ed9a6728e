// Package check bounds what peers say: the root, and workers that may be hostile.
package check
