// Package sockets opens and accepts the connections of a router, where the worker says: in its own
// network namespace, or at sockets that a process before it has handed over.
//
// Promise: an error of accept, such as too many open files, is waited out.
package sockets
