// Package survey asks workers to measure what is near to them, as package proximity wants it.
//
// Promises: it asks a bounded number of workers at once, and never holds the lock over a
// question.
package survey
