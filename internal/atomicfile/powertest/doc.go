// Package powertest has a file system for tests that forgets at a power cut
// everything that was not synced: the content of files without fsync, and the names
// in directories without fsync of the directory, even if the file itself was synced.
// That is all POSIX promises; common file systems keep more, most of the time. It is
// a FUSE file system in memory and needs root and /dev/fuse. Only tests use it.
package powertest
