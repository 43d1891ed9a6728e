// Package index is a B+ tree of workers, ordered by how much is free. Each node has the bounds of what
// is below it, so that a search passes over whole subtrees and counts others at once.
package index
