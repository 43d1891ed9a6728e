// Package rollouts decides which cluster gets another program or a restart when, and says how far
// that is.
//
// Promises:
//
//  1. Another program goes to one cluster after the other. A cluster that is away is not waited
//     for, and jobs do not wait.
//  2. A pause holds in all clusters that have not begun.
package rollouts
