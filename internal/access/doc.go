// Package access decides who may do what. It is asked for every operation of the
// HTTP interface, at the root and at a cluster, and it decides from its arguments
// alone: who asks, what for, and where the object is.
//
// Roles:
//
//   - An administrator may do everything at the root or cluster that issued its
//     certificate.
//   - In a namespace, a developer may do everything with its applications, their
//     instances and its secrets; a viewer may read.
//   - An operator may do everything with one cluster and its workers. What runs in
//     it an operator may read at the root; at the cluster's own interface an
//     operator may also change it, so that a site can be run without its root.
//   - A monitor may read the figures of the root or cluster and of its workers, and
//     nothing else.
//
// Promises:
//
//  1. What nobody has allowed is refused: an unknown verb, an empty Who, an object
//     of an unknown kind.
//  2. Who may not know that an object exists is told the same as if it did not
//     (Denied.Hidden); who may know of it is told which role is missing.
//  3. A decision depends on nothing but the arguments.
package access
