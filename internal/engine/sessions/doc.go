// Package sessions carries commands, connections and copies into instances, for whoever opened
// them.
//
// Promises:
//
//  1. A session belongs to who opened it, in the instance that it was opened in; to others it
//     does not exist.
//  2. The same question with the same key is the same session.
//  3. Their number is bounded, in an instance and in all.
package sessions
