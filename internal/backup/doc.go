// Package backup makes one file of all that makes a root or a cluster what it is,
// and a data directory of such a file: its keys, and what its store holds at one
// moment. The file is a tar archive with checksums, compressed, and (seal.go)
// encrypted, since it holds the keys of everything below that role.
//
// Promises:
//
//  1. A backup is of one moment of the store; the files are not older than it.
//  2. Nothing is restored from a file of which any byte is missing or changed, or
//     which a newer version has written: it is checked as a whole first.
//  3. A restored data directory is there as a whole or not at all.
//  4. What is restored knows that it is (Mark), so that its role asks those below
//     what has happened since.
package backup
