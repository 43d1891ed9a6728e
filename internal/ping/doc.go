// Package ping measures the round trip to hosts that are no workers: users, sensors,
// servers of others.
//
// Promises:
//
//  1. What must not be asked is not: the machine itself, its links (which the metadata
//     services of clouds are on), and addresses that mean many or nobody. A name is looked
//     up once, and what is asked is the address that was checked.
//
//  2. It tells nobody which ports are open: a refused connection is as good an answer as
//     one that is made, and which of the two it was is not said.
//
//  3. It is bounded: at most three packets or four connections for a question, each for a
//     second, and no more questions a second than its limit.
package ping
