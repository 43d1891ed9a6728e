// Package forget ends connections to an endpoint that is gone. A dead host sends no reset: without
// this, a client waits for its own timeout, and UDP packets keep going to the dead endpoint.
//
// It never touches a connection to any other endpoint.
package forget
