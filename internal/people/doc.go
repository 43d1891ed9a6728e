// Package people keeps who may use a root or a cluster, and what they did: the
// users with their roles and tokens, and the audit log. A root and a cluster each
// have their own, in their own stores.
//
// Promises:
//
//  1. Only hashes of tokens are stored.
//  2. What is taken away from a user is gone when the call returns: a token is
//     looked up anew for each request, and requests that are still open are told.
//  3. Nobody here can take anything away from an administrator's certificate: it
//     works even if every user is gone.
//  4. An entry of the audit log is durable when Record returns. The log is bounded;
//     its oldest entries go, in batches. Nothing is written while nobody does
//     anything.
package people
