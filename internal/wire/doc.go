// Package wire holds the messages that tiers exchange and the records they
// store. It has no behaviour beyond identity, ordering and versioning, and no
// I/O, so that deciders, roles and doers can all share it.
//
// Promises:
//
//  1. Every message and stored record carries Version; readers accept Version
//     and Version-1 and ignore fields they do not know. What the version before
//     wrote is recorded (testdata) and read by a test.
//  2. Revisions, never wall-clock times, order things. A timestamp that crosses
//     a machine boundary is information for people.
//  3. A Rev names the history it belongs to (Timeline), so that a store that
//     was restored from an older copy can never be mistaken for the one it was
//     copied from.
package wire
