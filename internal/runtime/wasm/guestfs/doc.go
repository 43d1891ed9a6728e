// Package guestfs is the file system that a module sees: what its service gives it, and
// nothing else.
package guestfs
