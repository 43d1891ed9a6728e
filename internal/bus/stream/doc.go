// Package stream uses JetStream streams of this process's own server as files that survive a
// power cut: append, read, purge. The log of a store and the blobs of a tier are built on it.
//
// It adds what the server leaves out. Files that the server has made get durable names (Log.Sync);
// damage is found before the server opens a stream and silently drops what follows (Check);
// space for the next write is asked for before it is needed, since JetStream does not recover
// from a full disk (FreeBytes, CheckHandles); and the server's clock of access times stands
// still while nothing is read or written.
//
// Promise: what Append has acknowledged is on disk under a durable name.
package stream
