// Package logmerge reads logs of instances through the HTTP interface and merges their lines by
// time. The log of an instance is in parts: the worker where it is has one, and so has each
// worker where it was.
//
// Promises:
//
//  1. Lines of one log stay in their order. A line whose time is not known comes before those of
//     other parts of its log.
//  2. A log that cannot be read, or not to its end, holds up no other.
//  3. A log is read up to where it ended when the first of it was read, however fast the program
//     writes, and a page of it at a time is in memory.
package logmerge
