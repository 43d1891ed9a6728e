// Package life owns the lifecycle of an instance: which state may follow which, and
// when an instance that exited is started again. It is a decider: time and seed are
// arguments.
//
// Promises:
//
//  1. Advance is the only way from state to state; a step that Table does not
//     list is refused with an *IllegalError and changes nothing.
//  2. Every step is kept with time, tier and reason; the history of a record is
//     bounded (MaxHistory), its beginning is never lost.
//  3. Terminated is final. What runs again after it is another instance.
//
// # States and conditions
//
// Running means started with its startup check passed. Ready, draining and
// unreachable are conditions beside the state; Advance clears those that mean
// nothing in the new one. A restart in place stays in Running: the worker alone
// decides it, and only Restarts and readiness change.
//
// Running → Terminated requires draining, so that routers know before the signal
// is sent. An instance that completed by itself has nothing left to drain: the
// condition is set and the state advanced in one write.
//
// There is no WorkerScheduled → ClusterScheduled. If a worker vanishes or refuses
// before the start, the instance goes to Failed and then to WorkerScheduled on
// another worker: the history says what went wrong, and Failed is where waiting
// and escalation are decided.
//
// Running → WorkerScheduled is an update in place: the same ordinal on the same
// worker will run another revision ("updating to revision 4") as the next
// incarnation. Terminated would make it another instance and lose the routes,
// volumes and logs of its id; Failed would count and show it as a failure. A move
// to another worker is the same step, taken once the next incarnation is ready
// there, so that Running follows in the same write.
//
// A new record has the empty state: it becomes Registered at the root, or
// ClusterScheduled at a cluster that was delegated its ordinal.
package life
