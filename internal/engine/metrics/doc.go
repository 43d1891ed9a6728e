// Package metrics has the figures of an engine, its router and its network for Prometheus.
//
// Promise: the number of figures is bounded; what is left out is counted.
package metrics
