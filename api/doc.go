// Package api is the vocabulary of Verge: the types of a descriptor, which says what should run and
// what it must achieve, with their units and limits.
//
// Related packages:
//
//	api/descriptor   reads descriptors, checks them, and changes them in place
//	api/schema       the table of all fields, and the JSON Schema made from it
//	api/pattern      the regular expressions of names, hosts, paths and images
//
// Promises:
//
//  1. Values write and read themselves as people write them: "500m", "128Mi", "20ms", "48.14,11.58".
//     An error says what to write instead.
//  2. An Application that descriptor.Parse returned has every default filled in; nobody downstream
//     guesses.
//  3. Fields are only added. JSON of an older version is understood.
//
// The package depends on nothing of Verge above it.
package api
