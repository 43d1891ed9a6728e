// Package notify tells hooks what happens in the cluster, and asks those that have a say before
// a wave of a rollout.
//
// Promises: hooks are told what is stored, after that. What a crash kept them from being told is
// told after the next start, from what the records say.
package notify
