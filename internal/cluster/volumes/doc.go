// Package volumes knows which volumes workers keep, which were given up there, and which
// snapshots there are.
//
// Promises: a volume that was given up is never taken for the present one, also if its worker
// comes back later.
package volumes
