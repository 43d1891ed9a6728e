// Package successor judges the engine that an upgrade hands over to: whether its program can
// be one, and whether it has found what ran before.
//
// Promise: nothing is changed by either.
package successor
