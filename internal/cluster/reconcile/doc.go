// Package reconcile brings the instances of a cluster closer to what they should be. It has the
// only list of the passes, in their order.
//
// Promises:
//
//  1. What a step decides follows from the records, what workers reported, and the time that it
//     is given. It asks nobody, and reads the clock only to note how long a decision took.
//  2. Steps that follow each other at one moment end: the last changes nothing.
//  3. Shares are those that the root gave, with the changes made here, whenever either changes.
package reconcile
