// Package geo has distances and areas on the Earth, and balls in the space of round trips that
// describe where many workers are.
//
// Bounds are rounded to the side that keeps them true.
package geo
