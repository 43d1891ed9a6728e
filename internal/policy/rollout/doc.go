// Package rollout decides how the instances of a service are updated to a new revision:
// which are updated now, how many extra instances run meanwhile, and whether the rollout
// has failed.
//
// Promises, as long as nothing else takes instances away:
//
//  1. At least the promised instances minus Unavailable are ready at every moment.
//  2. At most the promised instances plus Surge exist.
//  3. A rollout ends, or says what it waits for, or fails and says why.
//  4. A rollout that has failed or is paused updates nothing.
//  5. While a trial (Step) gives the new revision a share of the requests, no promised
//     instance is touched, and no instance of the trial gets a larger share than a
//     promised one.
//
// An instance is updated in place, under its own ordinal: its neighbours, name and data
// stay. Surge instances stand in for those that are being updated and are removed at the
// end. The first of them is also the test: if the new program does not become ready, no
// promised instance has been touched.
package rollout
