// Package rpc holds the questions that one tier asks another, and the answers: over the link
// (Ask and Answer), and over HTTP where a node asks with its certificate or has none yet.
// Package wire has what is exchanged by revision and stored.
//
// An upper tier asks on behalf of a client, and passes the answer on. So the HTTP interface
// also shows many answers: WorkerView, RouteReport, ScaleReport and others are declared only
// here, and not again in package apiv1.
//
// Promises:
//
//  1. A tier of the version before is asked, and answers, in words that both know: a field is
//     added, and keeps its name and its type.
//  2. An answer is bounded, or comes in pages.
//  3. What has an effect can be asked again: it names what it is about by a key, or does the
//     same again.
package rpc
