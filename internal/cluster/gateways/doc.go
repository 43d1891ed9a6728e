// Package gateways serves the workers that are gateways: the ACME accounts, certificates and
// locks that they share.
//
// Promises: a value is stored before the gateway is told so, and at most one gateway has a lock
// at a time. A lock ends by itself if its owner is not heard of.
package gateways
