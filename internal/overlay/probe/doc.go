// Package probe measures round trip times between workers over the data path: a
// question to a worker's own address in the service network, and its answer.
//
// Promises:
//
//  1. One question is one datagram of 40 bytes, and so is its answer: nobody gets
//     more back than was sent.
//  2. An answer counts only from the address that was asked, with the number that
//     the question had.
//  3. Questions under way and answers a second are bounded, and all are counted.
//  4. Nothing is sent unless somebody asks: there is no period here.
package probe
