// Package importer makes descriptors of Verge of what people have already: compose
// files, manifests of Kubernetes, deployment descriptors of Oakestra.
//
// Promises:
//
//  1. What it makes passes api.Parse, or nothing is made.
//  2. Each field of a source is carried over or named in a Note with its line:
//     nothing is left out in silence.
//  3. Values of secrets are in no descriptor and in no note, and of the environment
//     of whoever imports nothing is looked at.
//  4. Input is bounded before it is parsed, what aliases expand to before it is used,
//     and what references make before it is made.
//
// It opens no file: sources, and what they refer to, are given to it.
package importer
