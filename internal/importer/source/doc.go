// Package source reads the files that are imported: YAML or JSON, as trees of nodes that know
// their file and line.
//
// Aliases and merge keys are resolved, with bounds on depth, on the number of documents and on the
// size of what aliases expand to, so that a small file cannot stand for gigabytes. Paths of nodes
// are lists of keys and of indexes in brackets ("services", "web", "ports", "[0]").
package source
