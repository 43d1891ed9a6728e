// Package sim runs routers, queues and replicas in virtual time: the deciders are
// those of the running system, only clocks, networks and work are imagined. An hour
// of a service with a hundred requests a second takes a few seconds, on any system.
//
//   - [World] is the clock: what happens is put on a queue of events.
//   - [Pod] is a replica: places, a queue in front of them, and work that takes as
//     long as its [Law] says, alone or shared between what runs.
//   - [Router] is a router: a policy, and what a real router sees. It learns of a
//     request's end and of the pod's load when the answer arrives, not before.
//   - [Open] and [Closed] are the two kinds of load, [Stats] what came of it.
//
// Promises:
//
//  1. With the same seed the same happens, on every machine.
//  2. What is drawn at random for one purpose does not depend on what is drawn for
//     another: two policies are compared with the same arrivals and the same work.
//  3. Nobody knows what he could not know: a router knows its own requests, the
//     reports that have reached it, and the distances and rates of its links; no
//     other router's requests and no pod's true speed.
//  4. Events of the same instant happen in the order in which they were put there.
//
// A World and all that lives in it belong to one goroutine.
package sim
