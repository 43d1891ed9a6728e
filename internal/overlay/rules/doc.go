// Package rules is the ruleset of a worker's service network: which address stands for which, who
// may reach whom, and what is counted when it is refused.
//
// A Model says what should be true. A pure function compiles it into sets and chains of one
// nftables table, whose name contains the worker's mark; Table brings the kernel to that state.
//
// Promises:
//
//  1. A change is one transaction: no packet sees half of it. A change of one service leaves the
//     others untouched.
//  2. Open connections keep their endpoint, whatever changes.
//  3. Shares are exact to 1/65536 for each endpoint; rotation is exact.
//  4. A packet of an instance has the instance's own source address, or is dropped. Instances
//     reach only the exported ports of other applications and only the name server of the
//     machine; the outside world opens no connection to them. Each drop is counted by its reason.
//  5. Tables of others are neither read nor changed. A change to ours is noticed by events of
//     the kernel, without polling.
package rules
