// Package drive keeps something busy in a closed loop and measures it: a number of clients, each of
// which asks again as soon as it is answered.
//
// It begins nothing after its time, ends at once if more than half of the requests fail, and needs
// the same memory for any number of requests. A request that was under way when measuring began
// counts, one that was under way when it ended does not.
package drive
