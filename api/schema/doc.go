// Package schema lists the fields of a descriptor: for each its type, default, bounds, values and
// whether it is enforced (FieldSpec), and a JSON Schema made from that list.
//
// A test compares the list with the structs of package api, so that a field cannot be missing.
package schema
