// Package pki says who is who: the root's certificate authority, the authority
// that each cluster has for its own workers, and the identity of a
// node. The tokens with which a node joins are package tokens, signatures of programs are
// programsig.
//
// Promises:
//
//  1. A private key is made on the node that uses it and never leaves it; what
//     travels is the public part.
//  2. A cluster certifies its own workers without the root. Its certificate
//     carries critical name constraints, so that nothing it signs can pass for
//     the root, for another cluster, or for anything of another cluster.
//  3. After a crash or a power cut an authority or identity is there as a whole
//     or not at all. What is damaged is refused with the name of the file; it
//     is never silently replaced by something new.
//  4. Who a peer is comes from one URI in its verified certificate (Subject),
//     never from a name that the peer merely says.
//
// The chain of trust: root CA (10 years) → certificate of a cluster (5 years)
// → worker, cluster server, operator (1 year); the root's own server and
// administrators are signed by the root CA itself. Everything is ECDSA P-256.
package pki
