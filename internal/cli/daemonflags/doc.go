// Package daemonflags has the flags of root, cluster, worker and verge dev: each is taken from the
// command line, else from VERGE_<FLAG> of the environment, else from a file, and checked before
// the daemon starts.
package daemonflags
