// Package coord decides how far workers are from each other, and whom to measure
// to know it. It is a decider: functions of state, time and seed, without clock,
// I/O or goroutine.
//
// Two things are known of a pair. Coordinates are places in a space in which
// distances are round trips (Vivaldi): a worker that has measured some others
// estimates its distance to all. Direct measurements are exact and cost packets.
// Coordinates choose whom to measure, measurements choose the route.
//
// Promises:
//
//  1. No sample and no coordinate of another makes a coordinate that is not finite:
//     what is impossible is refused, and what is merely wrong does harm within
//     bounds.
//  2. A distance is the measured one while that is fresh (Fresh), else the
//     estimated one, and says which it is. Nothing is known as zero.
//  3. A state that is written and read again goes on where it was.
//  4. The number of peers that are remembered, and of probes, is bounded.
package coord
