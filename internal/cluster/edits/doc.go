// Package edits makes the changes that people ask of a cluster whose root is away: apply, scale,
// delete, restart.
//
// Promises: a change is stored before it is acknowledged, and a descriptor that the cluster may
// not change is refused with the reason.
package edits
