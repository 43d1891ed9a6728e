// Package shape walks the structs of a descriptor by reflection: its fields, their names and types.
package shape
