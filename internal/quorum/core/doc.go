// Package core is Raft as a pure state machine: etcd's raft.RawNode with Verge's settings and
// the rules around it. It has no I/O, clock or goroutine: time and what happens are arguments,
// and what is to be done is the answer.
//
// # Use
//
// One goroutine owns a Node. An input happens at the time of the last Advance, which is therefore
// called before each of them. After each input (Advance, Step, Propose, Change, ReadIndex,
// Transfer, Closed, Saved, Applied, …) it takes Ready and does what it says:
//
//   - Messages are sent, to whom they name.
//   - Appends are saved in order, several at once if the caller likes; once they are synced,
//     Saved is called with each. What raft says of its own promises (votes, acknowledgements)
//     comes out of Saved, never before.
//   - Applies go to the state machine in order, then to Applied.
//   - Wake is when Advance has to be called next; zero: there is nothing to wait for.
//
// A Node that has failed (a panic of the library, a divergence) says so in Ready.Fault, does
// nothing any more, and its server has to be quarantined: it never votes or acknowledges again
// under this id.
//
// # Rules on top of the library
//
//   - Hint: when the connection to the leader closes, a follower forgets the leader and
//     campaigns after HintDelay times its rank, instead of an election timeout later. Pre-vote
//     makes a wrong hint harmless.
//   - Retry: a server that knows no leader campaigns again after RetryDelay and its rank. From
//     the fourth time on it waits twice as long each time, up to eight times as long: where
//     disks or links take longer than a retry, no election would end otherwise.
//   - A sole voter without learners has no ticks.
//   - Slow disk: a leader whose oldest unsynced append is SlowDisk old transfers its leadership,
//     and steps down where that does not help.
//   - Full disk: a follower takes no entries, a leader no proposals, and hands over.
//   - Witness: a voter that never asks for a vote, to which entries go without their data, and
//     only while a full voter is away.
//   - Divergence: at times the leader asks all to compare the sum of what they applied.
package core
