// Package rules is the ruleset of a worker's service network: which address stands
// for which, who may reach whom, and what is counted when it is refused.
//
// A Model says what should be true. It is compiled, by a pure function, into sets
// and chains of one nftables table, whose name carries the worker's mark; Table
// brings the kernel's to that.
//
// What it promises:
//
//  1. A change is one transaction: no packet sees half of it. A change of one
//     service touches nothing of others.
//  2. Connections that are open keep their endpoint, whatever changes.
//  3. Shares are exact to 1/65536 for each endpoint; rotation is exact.
//  4. What an instance sends has its own source address, or is dropped. Instances
//     of other applications reach exported ports alone, instances reach of the
//     machine its name server alone, and the world outside opens nothing towards
//     instances. Each drop is counted by its reason.
//  5. Tables of others are neither read nor changed. Where somebody changes ours
//     that is noticed, without looking at it periodically.
package rules
