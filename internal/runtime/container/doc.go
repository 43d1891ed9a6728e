// Package container is the driver that runs an instance as a container of the
// system's containerd, with the runc shim.
//
// Images are package imagestore, the connection to containerd is ctrd, processes that are not
// children pidfd, and what a container may do ocispec. What is left is one thing, although it
// is larger than most packages: the life of a task from Start or Adopt over Exec, copies and
// its end to the removal of what it leaves, while containerd, its shims and this engine may
// each die at any point. Each of these steps hands what it could not do to the same guard,
// so parts of it would share all state.
//
// Besides the promises of every driver (package runtime):
//
//  1. containerd is asked when something begins or has ended, and by nobody in
//     between: no connection is kept, an idle container costs the engine one file
//     descriptor and one parked goroutine. Its end is seen from the kernel, so that
//     it is neither missed nor invented while containerd is away.
//  2. A container writes its log through its shim into the same pipe as a process
//     does (package logfile). Within stdout and within stderr the order
//     is kept, between the two it is not.
//  3. The exit code is known also of a container that ended while no engine was
//     there, for as long as the machine was not restarted, and of one that ended while
//     containerd was away: its shim is asked then. Both away at once is too much for
//     containerd 2, which removes at its start what has ended. A code above 128 is told
//     as the signal that it stands for, because containerd does not tell the two
//     apart.
//  4. What is made in containerd (container, snapshot) carries the mark of
//     its engine and is found by it. What could not be removed while containerd was
//     away is removed when it is back, and so is a shim that it had started for nothing. A
//     runc that is killed half-way leaves no control groups.
//  5. Limits are set by package cgroup in a group that runc then uses, so that both
//     drivers mean the same by them.
//  6. containerd may have other mounts than this process, which systemd or the lab
//     has given some of its own: the network namespace of a task is named such that
//     it is found from there, and a file that is not there is an error in words.
//  7. A start asks containerd for what changes, and keeps in memory what an image
//     always says of itself. It leaves out of the list of system calls those of
//     programs of 32 bits where the image has no loader for them: runc needs as long
//     to translate that list for three architectures as for all the rest of a start.
//  8. A container may do as little as runtime.Security says, and what runs beside it
//     by Exec may do no more.
//  9. Containers of an application share shims, ten at most, and a start that meets the
//     end of one is made again under another. A shim to which nobody can be connected
//     since then is ended.
//  10. Containers of an image that write nothing to their root share it: what
//     runc would make in each to mount something at is made once for all that are mounted
//     alike. It is owned by nobody, and goes by containerd's own collection of garbage
//     when neither a container is on it nor its image there. Who cannot start on one
//     starts on files of its own.
//  11. What an image says that its program writes to (VOLUME) is writable under a root that
//     is not, in files of the container's own: of the same disk, and gone with it.
//
// The main process is the first of a namespace of its own: a signal that it does
// not handle is ignored by the kernel, so a program without a handler for TERM ends
// only when it is killed after its grace.
package container
