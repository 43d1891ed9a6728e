// Package runtime is the interface of drivers, which run instances on a worker. Drivers live in
// runtime/process, runtime/container and runtime/wasm; each passes runtimetest, or the part of it
// that applies to its kind of task.
//
// Promises of every driver (a Resident one does not make the first):
//
//  1. A task survives the process that started it, and Adopt finds it again.
//  2. Each Task reports its exit exactly once: with its code, or as Unknown if nobody saw it.
//  3. No log line is lost by rotation, or by a restart of the engine or the agent.
//  4. Processes and control groups of a task are gone after Wait has returned and Cleanup was
//     called.
//
// To add a driver: a package below this one with the conformance test of runtime/process, an
// entry in Drivers (internal/engine/main.go), and its name in api/schema (services.*.runtime).
package runtime
