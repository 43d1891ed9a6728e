// Package advisor is where instances stand with the plugins that decide on their placement:
// whom to ask, what was answered, and when a plugin rests because it fails.
//
// Promises:
//
//  1. A decision never waits for a plugin longer than the service allows; then the built-in
//     scheduler decides, and the record says so.
//  2. A plugin chooses among workers that fit. It cannot place an instance anywhere else.
package advisor
