// Package quorum is the contract of a log that the servers of a tier hold together: what one of
// them has acknowledged survives the loss of any minority. Consensus is etcd's raft, unmodified.
//
// # Invariants
//
// The simulation in quorumtest checks all but the fourth, which is for who uses the log, and the
// sixth, which core's tests check.
//
//  1. What was acknowledged is on the synced disks of a majority.
//  2. A server applies only committed records, each once, in order, to the state that they
//     continue.
//  3. An id that lost anything that it had acknowledged never votes or acknowledges again.
//  4. Nothing leaves a tier (answer, order, certificate, notice) but from a leader of the term
//     that it carries.
//  5. Whoever has heard of a term never obeys a lower one.
//  6. A tier of one server has no ticks, no port and no packet more than a single process.
//
// The fourth is kept by who uses the log: Leadership carries the term, and Verify asks whether
// it is still the newest.
//
// # Parts
//
//   - core decides: raft.RawNode as a pure state machine, with the rules on top of it.
//   - wal keeps log, hard state and snapshots on disk.
//   - quorumtest simulates both with networks, disks, clocks and a nemesis from one seed.
//
// DESIGN.md has the reasons.
package quorum
