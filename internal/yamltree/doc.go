// Package yamltree reads YAML and JSON into trees that keep what a reader needs for good errors: the
// place of every value, its text as written, and whether it was quoted.
//
// Aliases, tags and merge keys are kept as they are; whoever decodes a tree decides what they mean and
// what they may cost. Input is checked and depth is bounded before anything is built, and the time of
// reading is linear in the size of the source. The caller bounds that size.
package yamltree
