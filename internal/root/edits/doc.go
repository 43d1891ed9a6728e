// Package edits makes the changes of applications that people ask for in package backend (apply,
// scale, restart, pause). Package undo makes its changes with it.
//
// Promises:
//
//  1. A change is stored before it is acknowledged, and one that is refused leaves everything as
//     it was.
//  2. What an application was is stored with what replaces it.
package edits
