// Package state has what all parts of an engine share: the record of an instance, where its
// files are, what orders say in words of the engine, and the errors that callers tell apart.
//
// Promises:
//
//  1. It imports no other part of the engine.
//  2. A record that cannot be read is told apart from one that is not there: ErrDamaged,
//     ErrEmpty, os.ErrNotExist.
package state
