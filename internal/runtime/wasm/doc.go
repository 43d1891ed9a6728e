// Package wasm is the driver of functions: modules of WebAssembly that answer HTTP
// requests, in the engine's own process. See DESIGN.md.
//
// It differs from other drivers in what package runtime promises: a task belongs to
// the process that started it and ends with it (Adopt says so), and there is no
// command that could run beside one.
//
// Promises:
//
//  1. Nothing that a module does ends or stops the engine: it has its own memory,
//     which is bounded, a bounded time for each request, and no files and no network
//     but what it is given. What goes wrong is the answer to its request.
//  2. A module is compiled once for all services that use it, and kept on disk. What
//     is damaged there, or of another version, is compiled again.
//  3. A module that nobody has asked for a minute takes no memory, however many
//     there are. What the engine keeps of its service is some tens of kilobytes.
package wasm
