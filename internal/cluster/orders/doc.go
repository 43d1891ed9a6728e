// Package orders writes what a worker is to do with an instance. It is the only place that
// makes the order of a new incarnation.
package orders
