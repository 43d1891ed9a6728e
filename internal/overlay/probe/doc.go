// Package probe measures round trip times between workers over the data path: a question to a
// worker's own address in the service network, and its answer.
//
// Promises:
//
//  1. A question is one datagram of 40 bytes, and so is its answer: nothing is amplified.
//  2. An answer counts only from the address that was asked, with the number of the question.
//  3. Open questions and answers per second are bounded, and all are counted.
//  4. Nothing is sent unless a caller asks: there is no period here.
package probe
