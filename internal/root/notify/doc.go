// Package notify tells the hooks of the root what happens, and asks those that have a say before
// a wave of a rollout.
//
// Promises:
//
//  1. Hooks are told of a change of the root's own once it is stored, and of what happens in a
//     cluster when the cluster reports it.
//  2. What a process had no time to note is noted by the next one: Open tells where each
//     application is and what is gone, and clusters report their instances with their history.
//     A notice that was sent before is not sent again.
package notify
