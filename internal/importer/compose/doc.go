// Package compose makes an application of a compose file.
//
// compose-go, the library of docker compose, validates the file and resolves its short forms,
// extends and profiles. Three things happen before it sees the file, each for a reason that a test
// keeps:
//
//   - merge puts included and extended files into one tree. The library opens them itself, wherever
//     they are, and its result has no lines.
//   - template replaces ${NAME}, and dotenv reads .env. The library's time grows with the square of
//     the references, its values can double with every line, and it logs what is unset.
//   - bounded refuses what would keep the library busy for hours (see bounds.go).
//
// Nothing is read but the file, what it names below its folder, and the variables passed in.
// A value that is named like a secret becomes a secret of the namespace, by name only.
//
// It has 2,600 lines and is one thing: every file of it turns one part of a compose service into
// fields of the same draft, and reports what has no counterpart in the same list.
package compose
