// Package hooks tells others by HTTP what happens, and asks them before something
// does: webhooks, signed as Standard Webhooks says.
//
// A notice is told after the fact. What is to be told is stored in the tier's store,
// one queue for each hook, and sent from there by a goroutine of the hook. A gate is
// asked before the fact: whoever wants the change waits for its answer.
//
// Promises:
//
//  1. A notice that is stored is delivered at least once, and those of one hook in the
//     order in which they happened: it is removed when its receiver has answered 2xx, and
//     not before. What is given up, since there is too much or it is too old, is counted,
//     and its hook says so.
//  2. What happened to a thing while nobody could store it is told later, from what the
//     thing says of itself (see HookMark), so that a crash in between loses nothing.
//  3. Tell never waits: not for a disk, not for a receiver.
//  4. A gate that does not answer in time, or not in the words that it must, has not
//     agreed. Whether that is a refusal is said by its hook.
//  5. Whatever a receiver does is bounded: how long it may take, what is read of its
//     answer, where its name may lead. It is never followed elsewhere.
//  6. Secrets are stored sealed, and are in no error, log or answer.
package hooks
