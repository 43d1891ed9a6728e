// Package apiv1 holds what the HTTP interface under /v1 takes and answers: requests, and the
// views of applications, instances, clusters and the rest. Package client gives them names for
// programs outside this module.
//
// Promises:
//
//  1. A client and a server of two versions that follow each other understand each other: a
//     field is added, and keeps its name and its type.
//  2. A view says where it comes from and how old that is, as far as it can be stale.
//  3. No view contains a secret; a token is shown once, in the reply that creates it.
//
// A view that also goes between tiers, because a cluster or worker answers with it, is a
// message: rpc.WorkerView, rpc.RouteReport, wire.Problem and others. What is stored is in
// package record; AuditEntry is the exception, since the audit log stores what it shows.
package apiv1
