// Package e2e tests Verge from the outside: real processes of the real binary,
// which are killed, stopped and started again, on free loopback ports and in
// temporary directories of their own. It has tests only.
package e2e
