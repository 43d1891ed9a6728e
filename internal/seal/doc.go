// Package seal closes small values so that only the holder of one key can open
// them: HPKE (RFC 9180) with X25519, HKDF-SHA256 and AES-256-GCM, as Go's standard
// library has it. Every root, cluster and worker has a key of its own, and tells
// its public part to whoever has secrets for it.
//
// Promises:
//
//  1. A private key is made once, is in one file that only its user may read, and
//     never leaves it. A damaged file is an error, never replaced.
//  2. What was sealed can be opened for the purpose that it was sealed for and no
//     other: who moves it elsewhere gets an error, not a value.
//  3. No error has a part of a value in it.
package seal
