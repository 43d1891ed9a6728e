// Package block has the arithmetic of blocks: sets of 32-bit numbers as ranges, in which worker
// numbers and /24s are leased. All functions take blocks in any order, and return them sorted and
// disjoint.
//
// Promises: no number is lost or added, up to the largest; the arguments stay as they are.
package block
