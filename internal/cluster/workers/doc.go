// Package workers is the cluster's side of the exchange with its workers: their reports, what
// they should be doing, and what they are asked.
//
// Promises:
//
//  1. A report changes something only if it continues from what is known; otherwise its worker
//     sees that by the reply, and reports everything.
//  2. A worker that was removed is refused.
//  3. A silent worker is suspect. While neither a worker nor the root is heard, it may be the
//     cluster that is cut off: then nothing that the workers run is replaced.
package workers
