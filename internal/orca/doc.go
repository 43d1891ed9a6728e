// Package orca reads and writes load reports in the forms of ORCA (Open Request Cost
// Aggregation), as Envoy and gRPC exchange them: a header of a response that says how
// busy is who made it.
//
// It reads all forms of the header (TEXT, JSON, BIN) and the trailer of gRPC, from
// whoever sent them: what is not finite or below zero, or larger than a report can be,
// makes the whole report an error, and nothing of it is used.
package orca
