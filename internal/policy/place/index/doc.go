// Package index is a B+ tree of workers, ordered by how much is free. Each node has the bounds of
// its subtree, so that a search skips whole subtrees and counts others at once.
package index
