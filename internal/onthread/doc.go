// Package onthread runs functions on operating system threads of their own, for what Linux
// keeps per thread: namespaces, control groups of version 1, the umask, rights.
//
// It promises:
//
//  1. The thread ends with the function, so that nothing else ever runs on it.
//  2. It is never the first thread, which cannot end and is what /proc/self shows.
package onthread
