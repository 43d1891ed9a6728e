// Package wave decides how the workers of a cluster are upgraded: which begins when, when
// one counts as healthy, and when the upgrade stops. It is a decider: time is an argument.
//
// Promises:
//
//  1. At most one wave of workers is being upgraded at a time. The next wave begins when
//     each worker of the previous one has passed.
//  2. Nothing begins while the upgrade is paused, or after a worker has failed.
//  3. A worker passes when it has been healthy for as long as it is watched: it reports, the
//     instances that ran there run again, and no more requests fail than before, as far as
//     statistics tell.
//  4. A worker that is away before its turn delays no other. One that stays away too long
//     after its upgrade began has failed.
package wave
