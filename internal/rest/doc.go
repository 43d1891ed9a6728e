// Package rest is the HTTP interface of a root and of a cluster: its operations as typed
// endpoints, each beside what it needs of who asks, and the groups of a backend that serve
// them. Package server serves them, package transport and the public package client ask for
// them, package resttest has a backend of plain data.
//
// Promises:
//
//  1. An operation is defined once: method, path, input, answer, permission. The server, its
//     OpenAPI document and the clients go by that value.
//  2. The interface only grows: server/openapi_test.go compares it with what was published.
//  3. A tier implements the groups that it serves, and says of all other operations where
//     they are served (Referrals).
//
// To add an operation: its endpoint and group here, the method in internal/root or
// internal/cluster, a line in the referrals of the other, and the fake in package resttest; then
// client and internal/cli.
//
// It has 2,600 lines and is one thing, a list: the endpoints with their types, by groups.
package rest
