// Package reconcile brings what clusters run closer to what was applied. It has the only list of
// the passes, in their order.
//
// Promises:
//
//  1. What a step decides follows from the model and the time that it is given.
//  2. Steps that follow each other at one moment end: the last changes nothing.
package reconcile
