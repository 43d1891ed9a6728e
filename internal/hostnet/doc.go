// Package hostnet looks at the network of the machine that a worker is on: the rules of others
// that would drop what instances send, whether it forwards packets, and whether this process may
// change any of it. It also has the names of what workers make there. Package claim below it says
// which worker has the service network.
//
// Promises:
//
//  1. Nothing of anybody's rules is changed.
//  2. Forwarding stays on while anybody else has rules for what is forwarded.
package hostnet

// Devices and Tables are how the names begin of the devices by which workers connect
// instances, and of their tables in nftables; a mark of the worker follows. Tables that
// end in Trial are made to be removed at once. DevTables is how the names of the tables of
// verge dev begin, and DevBridge how those of its bridges end; the label of a bridge begins
// with DevForwards where the machine did not forward IPv4 before.
const (
	Devices = "vg"
	Tables  = "verge-"
	Trial   = "-try"

	DevTables = Tables + "dev-"
	DevBridge = "b"

	DevForwards = "verge dev, which lets this machine forward IPv4"
)
