// Package descriptor reads descriptors: one file in, one api.Application out, or every complaint about
// the file at once.
//
// Promises:
//
//  1. `apply`, `plan` and `validate` judge a descriptor alike, because they all call Parse and nothing
//     else.
//  2. No field is ignored silently. Each one is enforced, refused ("not enforced yet") or warned about,
//     as api/schema says.
//  3. Every complaint names the line, the field, the reason and the remedy, and all complaints of one
//     file are reported together.
//  4. A parsed application has every default filled in.
//  5. Input is bounded before it is parsed: api.MaxDescriptorBytes, depth, aliases.
//  6. Scaled, Suspended and InNamespace change one thing in the text and keep the rest, comments too,
//     where that can be done; what counts is that the result parses as wanted.
//
// It has 3,000 lines and is one thing, a parser: each file checks one part of a descriptor and adds
// to the same list of complaints. Only the edits of promise 6 could stand by themselves.
package descriptor

//go:generate go test -run TestReferencePage -update .
