// Package uses tells a cluster which services this worker needs endpoints of.
//
// Promise: the first use of a service waits for its endpoints, for a bounded time.
package uses
