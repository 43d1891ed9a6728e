// Package rollout decides how the instances of a service are brought to another
// program: which are updated now, how many run beyond those promised meanwhile, and
// whether it has failed.
//
// What it guarantees, as long as nothing else takes instances away:
//
//  1. It never lets the instances that are ready fall below those promised less those
//     that may be missing.
//  2. There are never more than those promised and the surge.
//  3. It ends, or says what it waits for, or has failed and says why.
//  4. What has failed or is paused updates nothing.
//  5. While a new revision is tried on a share of the requests (Step), nothing that was
//     promised is touched, and the share of each of its instances is at most that of one of
//     those promised.
//
// An instance is updated where it is, under its own number: its neighbours, its name and
// what is kept for it stay. So the surge are instances of their own, which stand in for
// those that are being updated and go at the end. The first of them is also the proof:
// where the new program does not become ready, nothing of the old one has been touched.
package rollout
