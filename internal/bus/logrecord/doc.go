// Package logrecord is the form of what is stored: one record for each Commit, and a
// snapshot as a sequence of records. A backup holds the same bytes as a log.
//
// Promises: a record that was damaged or cut is refused, and so is one of a
// later version; what is read is a copy, which keeps nothing else of the record alive.
package logrecord
