// Package runtime is the contract of a driver: what runs an instance on a
// worker. Drivers live in runtime/process, runtime/container and runtime/wasm; each
// passes runtimetest, or the part of it that its kind of task can.
//
// Promises of every driver (but of a Resident one, of which there is no task without
// its engine, the first):
//
//  1. A started task belongs to the machine, not to the process that started
//     it: it goes on when that process dies, and Adopt finds it again.
//  2. An exit is reported exactly once by each Task, with its code where anyone
//     was there to see it, and as Unknown where not.
//  3. No log line is lost by rotation, by a restart of the engine or of the
//     agent.
//  4. What a task left behind (processes, control groups) is gone after Stop or
//     after Wait has returned and Cleanup was called.
package runtime
