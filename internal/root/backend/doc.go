// Package backend is the HTTP interface of a root: the operations of package rest that a root
// serves, in one file for each group, and what it refers to clusters.
//
// Promises:
//
//  1. A change is stored before it is acknowledged.
//  2. A cluster that keeps its details to itself is not asked for its workers, logs, sessions,
//     measurements and decisions.
package backend
