// Package daemon runs the roles for the command line: it turns flags into options, keeps a role
// running until it is stopped, and combines all of them for `verge dev`: in one process, or with
// the service network each worker in a process and a network namespace of its own.
package daemon
