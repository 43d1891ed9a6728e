// Package setpriv executes a program as another user, as setpriv(1) does.
//
// A process may be signalled by all others of its user. A child that changes its user between
// fork and exec can therefore be stopped there, and Go's fork waits for the exec with its
// thread: garbage collection, and with it the whole engine, would wait for a program that an
// instance has stopped. So the child executes the engine's own binary first, still as root,
// which nobody but root can signal. In that process this package enters the mount namespace,
// drops all rights, becomes the user and executes the program. The engine reads how far it
// got from a pipe, and may give up.
//
// Promises:
//
//  1. A process with the name of this package does nothing else: its init function never
//     returns. It imports little, so that it runs before most others: after about a
//     millisecond.
//  2. Only the engine's own binary runs with root's rights, never a file of the namespace
//     that it enters, which may be an instance's own.
//  3. The environment of the program has no effect on this step.
//  4. A spare is such a process that does not know its program yet. It waits for one message,
//     does nothing else, and ends with the process that would send it.
package setpriv
