// Package status is what an engine shows of itself: the status of each instance on a Board of
// numbered changes, and the Problems that there are now.
//
// Promises:
//
//  1. A reader that asks for what changed after a number misses nothing; one that is too far
//     behind is told everything.
//  2. What a reader gets is a copy.
//  3. A problem is logged when it begins and when it ends, not while it lasts.
package status
