// Package undo brings applications back to what they were: on demand, one service or all of them,
// and by itself where a rollout failed and the descriptor asks for a rollback. It also notes which
// services of a revision have held, since that is what a rollback goes back to.
//
// Promises:
//
//  1. What is brought back is what was applied then, as a new revision.
//  2. Without a revision, an undo goes to the last one that held and differs, or to none.
//  3. A rollback happens once: what it brings back is not rolled back in its turn.
//  4. Nothing is rolled back while the root recovers.
package undo
