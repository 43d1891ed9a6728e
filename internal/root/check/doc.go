// Package check bounds what clusters say, which may be hostile.
package check
