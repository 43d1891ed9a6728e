// Package process is the driver that runs an instance as a plain process: a
// child of the engine in a session of its own, in a control group of its own
// where the machine permits that.
//
// Besides the promises of every driver (package runtime):
//
//  1. There is no helper process per instance and no thread: an idle task costs
//     the engine two file descriptors and two parked goroutines. A stopped or
//     dead engine does not kill an instance. What an instance writes goes through
//     a pipe, which the agent reads while the engine does not (package logfile).
//  2. An ended main process stays a zombie until Cleanup. Until then its pid,
//     and with it its session, cannot become somebody else's; and an engine that
//     executed its successor in place still learns the exit codes.
//  3. A pid is never trusted alone: it is compared with the start time and the
//     boot, and signals go through a pidfd where the kernel has them (5.3).
//  4. A task with a user (Spec.User) runs as that, with no_new_privs and without
//     capabilities (User.LowPorts is one exception), in a mount namespace that has only its
//     view of the machine. Commands beside it enter the same namespace as the same user,
//     also after it was adopted. The thread that forks the program makes the namespace; the
//     child executes this binary again to become the user (package setpriv), so that a
//     program can stop what is about to become its user, and never this process. A start
//     costs about two milliseconds more (BenchmarkStart).
//  5. While a start is expected that somebody waits for (Expect), one child waits in that
//     binary already, with nothing of a task, and becomes the next one. It has 0.7 MB of
//     private memory, and ends with this process. Where it is gone, or cannot, a start goes
//     as without.
//
// Without control groups limits are not enforced and a process that has left
// both its session and its parents behind (a daemon) is not found by Kill.
package process
