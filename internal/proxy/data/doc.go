// Package data is the path between two workers: a TCP connection with TLS 1.3 both ways, and
// a preamble that says which port of which instance it is for. Dialer opens streams, Port
// answers them, and Paths has those that are open in either direction.
//
// Nothing of a client is sent before the other side has answered the preamble, so whatever
// is not answered with StatusOK may be tried elsewhere.
package data
