// Package wire holds the messages that tiers exchange, and the types that all of them share:
// identities, states, causes, problems. It has no behaviour beyond identity, ordering and
// versioning, and no I/O, so that deciders, roles and doers can all share it. With some 3,000
// lines it is one thing: the messages and records that two tiers must agree on.
//
// Related types are elsewhere: questions between tiers and their answers in rpc, the HTTP
// interface in apiv1, records that one tier stores for itself in record, and messages between
// the agent and the engine of a worker in engineapi.
//
// Promises:
//
//  1. Every message carries Version; readers accept Version
//     and Version-1 and ignore fields they do not know. What the version before
//     wrote is recorded (testdata) and read by a test.
//  2. Revisions, never wall-clock times, order things. A timestamp that crosses
//     a machine boundary is information for people.
//  3. A Rev names the history it belongs to (Timeline), so that a store that
//     was restored from an older copy can never be mistaken for the one it was
//     copied from.
package wire
