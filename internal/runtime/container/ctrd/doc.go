// Package ctrd is the connection of an engine to containerd: a client that is open while
// somebody uses it, whether containerd works (Health), and how containerd sees the files of
// this process (Mounts).
//
// Promises: a connection is open only while somebody uses it. A call that a hung containerd
// does not answer ends after Timeout with an error that OrAway turns into runtime.ErrAway;
// calls about tasks and diffs take as long as their work. The error for an absent containerd
// names the command that shows why.
package ctrd
