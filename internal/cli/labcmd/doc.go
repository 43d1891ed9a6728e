// Package labcmd is the command line of verge-lab: the test bed of internal/lab (verge lab) and
// its experiments, also those in virtual time (verge sim). It is a program of its own because
// nothing that runs applications needs it.
package labcmd
