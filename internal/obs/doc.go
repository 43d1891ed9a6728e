// Package obs is what a role says about itself: its log, its version, and the
// events that people read.
//
// Promises:
//
//  1. Attributes whose name says that they are secret, and values that look like
//     a credential of Verge, don't reach a log. This is a safety net under the
//     rule that secrets are not logged, not a replacement for it.
//  2. Events are bounded in number and size, cost nothing while nobody reads,
//     and never go to disk.
//  3. Whoever wants to know of events, such as the log and hooks, is a sink of the ring:
//     a call site adds an event, and nothing else.
package obs
