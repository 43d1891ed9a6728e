// Package forward is the driver of a call for all of HTTP: on net/http towards clients, on
// net/http or package h2client towards instances. It takes what the fast path leaves: HTTP/2,
// gRPC, upgrades, expectations, and whatever is to be refused.
//
// A body is passed on as it comes. Up to 64 KiB of it are kept, so that a request that no
// instance has taken may go to another one.
package forward
