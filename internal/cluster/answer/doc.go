// Package answer answers the questions that the root asks a cluster for people: logs, volumes,
// plans, sessions.
//
// Promises:
//
//  1. Details of workers and instances leave the cluster if its operator shares them. What the root
//     needs for itself, holdings and plans, is answered in any case.
//  2. Who asks through the root is "root/" and their name there: nobody passes for a user of the
//     cluster.
//  3. A question that this version does not know, or that lacks a part, is a problem with a remedy.
package answer
