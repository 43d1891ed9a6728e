// Package standing decides what the applications of a namespace may do: which hosts and gateway
// ports they get, beside those of others, and which rights their instances have. Package publish
// has the rules for hosts and ports.
//
// Promises:
//
//  1. A host or port belongs to one namespace at a time.
//  2. A change of the rules takes nothing away: an application keeps its hosts, ports and rights
//     until it gives them up.
//  3. A refusal says what is in the way, and which command of an administrator allows it.
package standing
