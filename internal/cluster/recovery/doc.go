// Package recovery decides what a cluster does that was restored from a backup.
//
// Promises:
//
//  1. Nothing is decided before the root was heard. A worker is told nothing before it has
//     reported everything, so that it keeps what it runs.
//  2. What a worker runs and is wanted is taken over, also if the backup does not know it.
//  3. The recovery ends when all workers were heard, or an operator ends the wait for those
//     that will not come back.
package recovery
