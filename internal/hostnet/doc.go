// Package hostnet looks at the network of the machine that a worker is on, as far as
// it decides whether the worker can have the service network there: who has it
// already, and which rules of others would drop what instances send.
//
// What it promises:
//
//  1. One worker of a network namespace has it. Which one is settled by the kernel, at
//     once and for as long as that process lives; the others learn who it is.
//  2. Nothing of anybody's rules is changed.
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
