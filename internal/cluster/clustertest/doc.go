// Package clustertest runs a cluster in tests, so that each package of internal/cluster is
// tested by what the whole cluster makes of it.
//
//   - A Sim is the model of a cluster with workers that obey their orders, in virtual time and
//     one goroutine. Each tick makes a pass and checks what must be true after every pass.
//   - A Network is what the workers of a Sim measure between each other.
//   - NewCore is a cluster on a bus and a store in memory; a Site is one with workers that
//     obey their orders, whose root is away.
package clustertest
