// Package sim is a discrete-event simulation of routers, queues and replicas. The deciders
// are those of the running system; clocks, networks and work are simulated. An hour of a
// service with a hundred requests per second takes a few seconds.
//
//   - [World] is the clock and the queue of events.
//   - [Pod] is a replica: places, a queue in front of them, and work whose duration follows
//     a [Law], alone or with processor sharing.
//   - [Router] is a router: a policy and the view of a real router. It learns of the end of
//     a request, and of the pod's load, when the answer arrives.
//   - [Open] and [Closed] are the two kinds of load, [Stats] the results.
//
// Promises:
//
//  1. The same seed gives the same run on every machine.
//  2. Random numbers for one purpose do not depend on those for another: two policies are
//     compared with the same arrivals and the same work.
//  3. A router knows only what a real one could: its own requests, the reports that have
//     reached it, and the distances and rates of its links; neither requests of other routers
//     nor the true speed of a pod.
//  4. Events of the same instant run in the order in which they were scheduled.
//
// A World and everything in it belong to one goroutine.
package sim
