// Package logstore is the durable bus.Store: a log in a JetStream stream, one message for
// each Commit, and a table of its content in memory (package memtable). It is log-structured:
// beyond twice its content plus some slack the log is shortened by writing again what is
// still valid at its old end.
//
// Promises: those of bus.Store. A write whose outcome is unknown is found out before the next
// operation; damage is reported at the start (Check) and never taken for an empty store; each
// start begins an era, so that a restored copy is recognised.
//
// The design page is that of internal/bus.
package logstore
