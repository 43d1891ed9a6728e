// Package consult asks the plugins that decide on placement, and lets them join and leave.
//
// Promises:
//
//  1. A question is asked after the commit of the pass that needs it, in a goroutine of its own,
//     which ends with the cluster.
//  2. A plugin that fails several times in a row rests, and is tried again after a while.
package consult
