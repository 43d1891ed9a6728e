// Package secrets keeps the secrets that orders bring, sealed for this worker, and opens them
// when an instance starts that needs them.
//
// Promises:
//
//  1. Nothing is kept opened, and nothing opened is written.
//  2. A key that cannot be read at the moment (ErrNoKey) is told apart from a secret that is
//     missing or sealed for another key.
package secrets
