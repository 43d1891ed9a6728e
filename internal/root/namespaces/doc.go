// Package namespaces decides what a namespace may do: its quota, its standing, and what it may
// publish.
//
// Promises:
//
//  1. A change that a quota or a standing forbids is refused before anything is stored. What an
//     application had already stays.
//  2. Changes at sites count against the quota. Nothing that runs is ended for them.
package namespaces
