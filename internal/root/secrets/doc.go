// Package secrets decides which secrets each cluster is given.
//
// Promises:
//
//  1. A cluster is given a secret if a service needs it of which the cluster has a share; and, if
//     it has gateways, the certificates of all hosts that are published.
//  2. The model has versions and key ids, and no values.
//  3. A secret that the root cannot open stays with the clusters that need it.
package secrets
