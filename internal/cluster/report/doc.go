// Package report is what the root is told of the cluster: instances, totals, and nothing that
// the operator of the cluster keeps private.
package report
