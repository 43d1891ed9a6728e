// Package registryhttp is how a pull talks HTTP with registries that it does not trust.
//
// Promises:
//
//  1. A registry that sends nothing is given up after a while, by name, and not asked again
//     in the same pull.
//  2. All pulls of a worker together keep their bound.
//  3. A registry leads nobody to the worker's own addresses (Reach), neither for a token nor
//     by a redirect.
package registryhttp
