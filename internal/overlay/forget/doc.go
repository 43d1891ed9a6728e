// Package forget ends what still leads to an endpoint that is gone. A dead host
// sends no reset: without this a client waits for it until its own patience ends,
// and packets of UDP stay with it as long as they come.
//
// What it promises: what leads elsewhere is not touched, in no case.
package forget
