// Package queue is what stands in front of one instance: so many requests run at a
// time, so many more wait in the order in which they came, and the rest is refused at
// once. It measures what it sees and says so in load reports.
//
// It promises: no goroutine, no timer while nobody waits, a constant cost for each
// request, and no allocation for one that need not wait.
package queue
