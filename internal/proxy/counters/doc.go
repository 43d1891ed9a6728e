// Package counters has the counters of a router, and its moments, that many goroutines
// change without a lock: bytes of clients, durations in buckets, and stamps of the
// monotonic clock.
//
// Reading a counter is consistent for each number, not for all of them together.
package counters
