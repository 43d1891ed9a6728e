// Package e2e tests Verge from the outside: real processes of the real binary,
// which are killed, stopped and started again, on free loopback ports and in
// temporary directories of their own. It has tests only.
//
// On Linux, as root, the tests run in a network and with mounts of their own, and
// those of failures give every node a machine: a network namespace on a bridge,
// in which the kernel drops or refuses packets as a case asks. What fails, how and
// what must hold is in failures_linux_test.go.
package e2e
