// Package queue stands in front of one instance: a number of requests run at a time, a number wait
// in the order of their arrival, and further ones are refused at once. It measures what it sees for
// load reports.
//
// Promises: no goroutine, no timer while nobody waits, constant cost per request, and no allocation
// for a request that need not wait.
package queue
