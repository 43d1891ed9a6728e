// Package geo has distances and areas on the Earth, and balls in the space of round trips that
// describe where many workers are.
//
// Whatever is rounded is rounded to the side that keeps a bound true.
package geo
