// Package revisions keeps what applications were before, and which of it has held.
//
// Promises:
//
//  1. A bounded number of revisions is kept. Their descriptors are in the store alone.
//  2. A revision is stored together with the application that replaces it.
//  3. A service whose instances fail does not count as one that has held.
package revisions
