// Package cli is the command line: client commands over internal/rest, and the
// flags of the daemons, whose work is passed in.
//
// Promises:
//
//  1. Results go to standard output, all else to standard error.
//  2. Exit codes: 0 done; 1 error; 2 accepted but not (fully) placed, ready or
//     gone within the time given, or imported with losses.
//  3. A setting is taken from its flag, else from the environment (VERGE_…), else
//     from the context file, else its default.
//  4. JSON output is what the HTTP interface says, lists under "items"; fields are
//     only ever added. Times are RFC 3339.
//  5. Every error says what, why and what to do next.
package cli
