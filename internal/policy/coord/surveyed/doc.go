// Package surveyed lets workers measure each other in virtual time by the rules that
// clusters and workers follow, for simulations and tests: what is foretold by it is what
// coordinates would be.
//
// Promises:
//
//  1. Nobody is measured who would not be by coord.Round and coord.Table.
//  2. The same round trips and seed have the same result.
package surveyed
