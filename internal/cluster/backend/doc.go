// Package backend is the HTTP interface of a cluster: the operations of package rest that a
// cluster serves, in one file for each group, and what it refers to the root.
//
// Promises:
//
//  1. A change is stored before it is acknowledged.
//  2. A worker gets the objects of namespaces of which it is to run something, and of volumes
//     only what an order to it names.
package backend
