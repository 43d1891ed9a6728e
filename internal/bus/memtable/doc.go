// Package memtable holds the content of a store in memory: the latest entry of each key,
// ordered by key and by revision, and those who watch it. A store reads from it alone, so
// that no read waits for a disk.
//
// The durable store (package logstore) also keeps here which message of its log each entry
// is in, so that it knows what of the log is still needed.
//
// Promises: reads see a Commit entirely or not at all; a watch is told every entry below its
// prefix once, in order, and never delays who commits.
package memtable
