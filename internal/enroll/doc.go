// Package enroll lets nodes in: the tokens that a root or cluster gives out and
// takes back, and the join request of a node that has one.
//
// Promises:
//
//  1. A token is good for one node. Redeeming it and registering the node are
//     one durable step, so two nodes can never share a token, and a node whose
//     reply was lost can ask again with the same key.
//  2. Only hashes of secrets are stored.
//  3. Once a node has its identity its token is not looked at again: the same
//     command works at every start. Another one makes it ask whether the identity
//     still counts; only one that does not is given up for it.
//  4. The node's private keys never leave it.
//  5. A certificate is renewed at half of its life without a restart, and for 180
//     days after it has expired; who is refused for good asks no more than once an
//     hour.
//  6. A token for the interface that is taken back is good for nothing at once,
//     nor is what was made with it, or by somebody who is no administrator any
//     more.
package enroll
