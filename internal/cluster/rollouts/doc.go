// Package rollouts decides how far the rollout of a service goes: its waves, when it stops or
// is undone, and which revision each instance has meanwhile.
//
// Promises:
//
//  1. A rollout stops where instances of the new revision fail, answer worse or slower than those
//     of the old one, or a hook refuses a wave.
//  2. What people say of it (pause, resume, undo) holds from the next pass on.
package rollouts
