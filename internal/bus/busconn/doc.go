// Package busconn is bus.Conn over NATS: the connection of a worker to its cluster (Dial) and
// those of a server's own process (DialInProcess).
//
// A dialed connection speaks TLS before the first byte of the protocol, is marked as control
// traffic, and knows from the kernel what the other machine has acknowledged, so that Send
// needs no answer.
//
// Promises: those of bus.Conn. It is tried for ever, with the certificate and the token of the
// moment; what the credentials forbid is refused at once.
package busconn
