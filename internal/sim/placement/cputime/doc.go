// Package cputime is the clock by which decisions are timed: the processor time of the calling thread,
// which other programs on the machine disturb little. Where the system does not tell it, it is the
// time that has passed.
package cputime
