// Package manifest reads objects of Kubernetes as its API server would: into the types of
// internal/k8s, with unknown fields, wrong values and combinations that the server refuses noted
// with their line.
//
// It also lists the kinds and versions that Verge knows, what becomes of each of their fields, and
// why other kinds are not carried over.
package manifest
