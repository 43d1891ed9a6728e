// Package objects is the object store of a tier: files with a name in a
// namespace, put, read in parts and removed over HTTP. A root and a cluster each
// have a Store; a worker has a cache of its cluster's (package cache). See
// DESIGN.md.
//
// What it promises:
//
//  1. A put is there as a whole, on disk, or not at all. Who reads meanwhile reads
//     the former one to its end.
//  2. A name stands for the newest put at the tier that owns it. What a cluster was
//     given is the cluster's own, and goes before what its root has by that name.
//  3. What a cluster asks its root for is kept as a copy, which may be dropped at any
//     time and is never taken for the original.
//  4. What is read has the digest that it was put with, or reading it fails.
//  5. Memory is bounded by the number of transfers, not by what is transferred.
package objects
