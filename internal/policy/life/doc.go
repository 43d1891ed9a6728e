// Package life owns the lifecycle of an instance: which state may follow which,
// when an instance that exited is started again, and when a peer that fell
// silent is given up. All of it is pure: time and seed are arguments.
//
// Promises:
//
//  1. Advance is the only way from state to state; a step that Table does not
//     list is refused with an *IllegalError and changes nothing.
//  2. Every step is kept with time, tier and reason; the history of a record is
//     bounded (MaxHistory), its beginning is never lost.
//  3. Terminated is final. What runs again after it is another instance.
//  4. Nobody is suspected for silence that the orchestrator itself caused.
//
// # States and conditions
//
// Running means started with its startup check passed. Ready, draining and
// unreachable are conditions beside the state; Advance clears those that mean
// nothing in the new one. An exit with a restart in place does not leave
// Running: the orchestrator decided nothing, only Restarts and the readiness
// change.
//
// Running → Terminated goes by way of draining: the condition must be set, so
// that routers have been told before the signal is sent. An instance that
// completed by itself has nothing left to drain; whoever records its end sets
// the condition and advances in one write.
//
// WorkerScheduled → ClusterScheduled does not exist. A worker that vanished or
// refused before the start is Failed → WorkerScheduled on another: the history
// then says what went wrong, and Failed is where waiting and escalating are
// decided.
//
// Running → WorkerScheduled is an update in place: the same ordinal, on the same
// worker, is to run another revision ("updating to revision 4") as the next
// incarnation. By way of Terminated it would be another instance, and routes,
// volumes and logs that hang on its id would be lost; by way of Failed it would
// be counted and shown as a failure that nobody had. A move to another worker is
// the same step, taken when the next incarnation is ready there already, so that
// Running follows in the same write.
//
// A record that is only being opened has the empty state: it opens as Registered
// at the root, as ClusterScheduled at a cluster that was delegated its ordinal.
package life
