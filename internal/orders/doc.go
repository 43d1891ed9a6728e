// Package orders keeps what an engine was told in the worker's data directory: all of
// it in one file, and beside it a log of what changed of the routes since. Routes
// change with every endpoint anywhere, and one of a thousand is a thousandth of the
// file.
//
// It promises that what was stored is there after a power cut, whole. A log that ends
// in the middle of an entry ends before it: nobody was told that it is stored. One that
// does not belong to the file, since a power cut or another version came between, is
// none. The file alone is a state that was true once, of the revision that it says, so
// who knows no log goes on from there.
package orders
