// Package eject decides when an endpoint leaves the rotation of a router and when it returns: after a
// failed connection, until a probe succeeds (Health); after failed answers in a row, for a time
// (Outlier); and how many requests may be sent once more (Budget). Its types are values: methods
// return the next one, and time comes from outside.
package eject
