// Package importertest has what the tests of the importer's formats share: importing a text,
// demanding a note at a line, golden files, and fuzzing.
package importertest
