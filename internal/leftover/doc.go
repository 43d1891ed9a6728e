// Package leftover finds and removes what a worker of this machine left behind: processes
// of instances, an engine whose directory was removed, containers, control groups, mounts,
// devices and the nftables table of the service network.
//
// Everything that a worker makes outside its data directory carries a mark, a prefix of the
// SHA-256 of that directory. An engine also registers the directory below /run (Register),
// so that the mark leads back to it when the directory is gone.
//
// Promises:
//
//  1. Nothing of a live worker is listed or removed. A worker is live as long as a process
//     holds the lock of its engine or agent, and that lock still has a name.
//  2. Find changes nothing.
//  3. A process is signalled through a pidfd, after its mark was read again.
//
// Of the service network only the network namespace of the caller is looked at, and of
// processes only what the caller may see.
package leftover
