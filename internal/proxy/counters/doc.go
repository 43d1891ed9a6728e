// Package counters has the counters of a router: bytes of clients, durations in buckets,
// answers, stamps of the monotonic clock, which many goroutines change without a lock; and,
// for who holds one, what happened in the last minute, and the mean of the newest numbers.
//
// Reading a counter is consistent for each number, not for all of them together.
package counters
