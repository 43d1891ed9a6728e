// Package planner answers `verge plan`: it copies the model, lets package rehearsal run the passes
// on the copy, and measures what is near if that helps.
//
// Promises: one plan is worked out at a time, without the lock but for the copy.
package planner
