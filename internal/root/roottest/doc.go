// Package roottest runs a root in tests, so that each package of internal/root is tested by what
// the whole root makes of it.
//
//   - A Sim is the model of a root with clusters that run what they are given, in virtual time
//     and one goroutine. Each tick makes a pass and checks what must be true after every pass.
//   - NewCore is a root on a bus and a store in memory, and NewBackend its HTTP interface;
//     NewLinkedBackend has clusters that a test can answer for.
package roottest
