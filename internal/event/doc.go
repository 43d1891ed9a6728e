// Package event has the kinds of events, each registered once: what it means, what it is about, how
// severe it is, and whose hooks receive it.
//
// Promises:
//
//  1. A Kind comes from the table in kinds.go alone: no other package can make one, so every event
//     has a kind that is registered and documented.
//  2. An event is about a subject of the type that its kind names: call sites give only the name.
//  3. A kind keeps its name and meaning: hooks and programs depend on them.
package event

//go:generate go test -run TestPage -update .
