// Package environment resolves what the process of an instance is started with: its arguments
// and variables, those of its devices among them.
//
// Promises:
//
//  1. A descriptor cannot set the variables by which an engine recognizes its processes.
//  2. Nothing is read but the order and its surroundings.
package environment
