// Package cgroup gives each task of a driver a control group of its own, in
// version 1, version 2 and mixed hierarchies.
//
// Promises:
//
//  1. A process forked through Group.Fork is in the group from its first
//     instruction on; nothing of it can escape the limits or Kill.
//  2. Kill returns when no process of the group is left, however fast they fork.
//  3. Where something is not permitted, the Manager says what and why, and
//     groups hold with what is left; a Manager without any hierarchy is valid.
//
// Groups lie beneath the caller's own group where that is possible (always in
// version 1; in version 2 if it was delegated to us, as systemd's Delegate=yes
// does), so that a limit on the engine holds for what it starts; else beneath
// the top of the hierarchy. Their path is verge/<hash of the base name>/<name>,
// so that several engines on one machine do not meet.
package cgroup
