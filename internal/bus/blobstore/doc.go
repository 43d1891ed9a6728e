// Package blobstore is the durable bus.Blobs: a stream with a message for each piece of a
// blob. It is apart from the store, with a connection of its own, so that large contents do
// not delay commits, and its stream is made with the first blob.
//
// Promises: those of bus.Blobs, and that blobs leave room on the disk for the store.
package blobstore
