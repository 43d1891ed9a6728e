// Package coord estimates the network distance between workers, and decides which peers
// to measure. It is a decider: functions of state, time and seed, without clock, I/O or
// goroutine.
//
// There are two sources. Network coordinates (Vivaldi) place workers in a space whose
// distances are round trips: a worker that has measured a few peers estimates its
// distance to all. Direct measurements are exact and cost packets. Coordinates choose
// the peers to measure; measurements choose the route.
//
// Promises:
//
//  1. Coordinates stay finite, whatever samples and coordinates arrive: impossible ones are
//     refused, and wrong ones do bounded harm.
//  2. A distance is the measured one while that is fresh (Fresh), else an estimate, and says
//     which: an older measurement (Lasting), else by coordinates. An unknown distance is never
//     zero.
//  3. A state that is written and read again continues where it was.
//  4. The number of remembered peers, and of probes, is bounded.
package coord
