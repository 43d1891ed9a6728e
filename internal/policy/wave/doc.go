// Package wave decides how the workers of a cluster are brought to another program: who
// begins when, when one counts as sound, and when all of it stops. It is pure: time is an
// argument.
//
// Promises:
//
//  1. No more workers are under way at a time than a wave has, and the next wave begins
//     only when each of the one before has proved itself.
//  2. Nothing begins while the upgrade is held, or after any worker has failed.
//  3. A worker counts as sound only when it was so for as long as it is watched: it is
//     heard, what ran there before runs there again, and it is not certain that more requests
//     fail there than before.
//  4. A worker that is away holds nobody up before it has begun, and counts as failed
//     when it goes away for too long afterwards.
package wave
