// Package acme is what the gateways of a cluster share of ACME servers: accounts, certificates
// and the locks of those that ask for one.
//
// Promises:
//
//  1. A gateway reads and writes the values of an account, or of a host that is published here
//     with a certificate by ACME, and nothing else.
//  2. Values are sealed for the cluster. The number and size of all of them are bounded.
package acme
