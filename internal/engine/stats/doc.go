// Package stats measures a worker: what its instances use, what its clients ask for, and the
// figures of its engine, router and network for Prometheus.
//
// Promises:
//
//  1. Nothing is measured while nobody asks.
//  2. The number of figures is bounded; what is left out is counted.
package stats
