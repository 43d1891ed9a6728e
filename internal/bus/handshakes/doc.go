// Package handshakes limits how many TLS handshakes a server works on at a time, so that each
// ends in time when thousands of peers connect at once, as after a restart of a cluster.
//
// Promise: a peer that is slow, or never answers, keeps nobody out for longer than a slot.
package handshakes
