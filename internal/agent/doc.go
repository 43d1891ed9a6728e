// Package agent is the half of a worker that talks to its cluster and decides:
// it joins, keeps the exchange of revisions, hands orders to the engine, and
// reports what the engine says.
//
// Promises:
//
//  1. It keeps nothing that the engine or the cluster does not have: killing it
//     at any moment loses nothing and stops no instance.
//  2. Orders are with the engine, on disk, before the cluster is told so.
//  3. It starts the engine where there is none, and again when it dies.
//  4. It opens no port; everything goes over its one connection to the cluster.
package agent
