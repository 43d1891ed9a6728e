// Package report collects what becomes of the fields of an import.
//
// A Note belongs to a line of a file and has a level: carried over with a remark, lost, or the
// reason why nothing is made. A Cover lists, for each field of a format, what becomes of it;
// Leftovers walks a document by a Cover, so that a field which no code looks at is still noted.
// A Report also counts what references expand to, and stops an import that would make too much.
package report
