// Package planner answers `verge plan`: it rehearses the change on a copy of the model, and asks
// the clusters for their part.
//
// Promises: others wait for the model only while it is copied.
package planner
