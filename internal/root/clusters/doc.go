// Package clusters is the root's side of the exchange with its clusters: their reports, what they
// should be doing, what they are asked, and how they leave.
//
// Promises:
//
//  1. What a cluster reports is taken over in its order and once. A report that does not continue
//     from the last one changes nothing of it: the reply says where to go on.
//  2. A cluster reports for itself alone, and what is kept of it is bounded.
//  3. The reports of a cluster that was removed are refused. Package root ends its connection,
//     and that of one whose key was revoked.
//  4. Silence makes a cluster suspect. While none is heard it may be the root that is cut off:
//     Model.Alone says so, and nothing is replaced.
package clusters
