// Package failure names how a try to reach an instance fails, and whom that speaks against:
// this worker, the endpoint, or the worker behind it. The parts of a router decide by these
// errors whether an endpoint leaves the rotation and whether a request goes elsewhere.
package failure
