// Package textpages unmaps the pages of a process's own program that it does not use.
//
// A Go program runs the initialisers of all its packages when it starts, and the kernel maps 64 KB
// around each page that is touched. So the code and the tables of packages that a role never uses
// stay mapped, and the kernel takes what is mapped for needed: when memory becomes short it looks
// elsewhere first. Once unmapped they are ordinary pages of a file, and each that is used after all
// is mapped again from there.
//
// Promise: nothing is unmapped that the process has changed.
package textpages
