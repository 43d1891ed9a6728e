// Package controller is the control loop of a root: when it looks, and what it does with what a
// pass decided.
//
// Promises: nothing that was decided is told before it is stored.
package controller
