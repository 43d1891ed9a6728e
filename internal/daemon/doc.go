// Package daemon runs the roles for the command line: it turns flags into
// options, keeps a role running until it is told to stop, and composes all of
// them into one process for `verge dev`.
package daemon
