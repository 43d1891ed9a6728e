// Package certs has the certificates that a gateway shows its clients: those that it was given, those
// from an authority by ACME, and those that it makes itself.
//
// Promises:
//
//  1. What is not needed costs nothing: ACME runs only while a host needs it, and the authority
//     for self-signed certificates exists only while one does.
//  2. A change of hosts or certificates counts from the next handshake on and drops no
//     connection.
//  3. An expired certificate is shown until there is a better one: clients see what is wrong.
//     Reports call it a problem from two weeks before.
//  4. No client is shown the certificate of another host than the one it asked for.
//  5. Gateways that share by Above ask an ACME server once for all of them, and any of them
//     answers its challenges. While Above is away they show what is on disk.
//  6. Private keys are in files of mode 0600, and in no log and no error.
package certs
