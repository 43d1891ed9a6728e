// Package gateway shows what a worker's gateway publishes: ports, certificates, and what is
// wrong with either.
//
// Promise: a problem that has passed is taken back.
package gateway
