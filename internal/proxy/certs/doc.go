// Package certs has the certificates that a gateway shows its clients: those that it
// was given, those that it gets from an authority by ACME, and those that it makes
// itself. It promises:
//
//  1. What is not needed costs nothing: without a host for ACME nothing of that runs,
//     and without one that is self-signed there is no authority.
//  2. A change of hosts or certificates counts from the next handshake on, and no
//     connection is dropped for it.
//  3. A certificate that has expired is shown for as long as there is no better one:
//     clients see what is wrong, and those that do not mind go on. It is a problem in
//     Reports from two weeks before.
//  4. Nobody is shown the certificate of a host that is not the one asked for.
//  5. Gateways that share by Above ask an ACME server once for all of them, and any of
//     them answers its challenges. While what is above is away they show what is on disk.
//  6. Private keys are in files of mode 0600, and in no log and no error.
package certs
