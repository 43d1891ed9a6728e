// Package local is the instances of a worker as requests meet them: the queue in front of
// each, the connections to it, what is in flight, and how it answers. The engine says where
// an instance listens and wakes it, by the interface Local.
//
// A request counts as in flight from the first moment on, before Local is asked: an engine
// that says "draining" and then waits for none in flight misses nobody.
package local
