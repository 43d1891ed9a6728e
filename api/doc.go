// Package api is the vocabulary that users of Verge share with it: the
// descriptor (one file that says what should run and what it must achieve),
// its units, its strict parser and its JSON Schema.
//
// Promises:
//
//  1. `apply`, `plan` and `validate` reach the same verdict, because they all
//     call Parse and nothing else.
//  2. No field is silently ignored. Each one is enforced, refused ("not
//     enforced yet") or warned about, as the table in verdicts.go says; the
//     reference page is generated from that table.
//  3. Every complaint names the line, the field, the reason and the remedy, and
//     all complaints of one file are reported together.
//  4. A parsed Application has every default filled in: nobody downstream
//     guesses.
//  5. Input is bounded before it is parsed: MaxDescriptorBytes, depth, aliases.
//
// The package depends on nothing of Verge above it.
package api
