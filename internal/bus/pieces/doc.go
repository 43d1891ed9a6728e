// Package pieces cuts a blob into pieces of a bounded size, reads it back from any place, and
// counts its readers. Where the pieces are is the caller's business: a stream, or memory.
//
// Promises: neither needs memory for more than one piece; a blob of another length than it
// was written with does not read as a whole one (bus.ErrDamaged).
package pieces
