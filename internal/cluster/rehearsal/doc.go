// Package rehearsal runs the passes of reconcile on a copy, for `verge plan`: what would
// happen, and why.
//
// Promises:
//
//  1. The cluster goes on meanwhile, and nothing of the rehearsal reaches it.
//  2. What the plan leaves out or had to assume is in its notes.
package rehearsal
