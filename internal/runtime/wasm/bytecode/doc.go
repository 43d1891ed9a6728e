// Package bytecode reads and rewrites modules of WebAssembly without running them: it bounds
// the tables of a module, and makes its shell, a module with the same functions and no code,
// by which machine code that was compiled before is loaded.
//
// Promise: whatever the bytes are, they are refused or bounded, and nothing panics.
package bytecode
