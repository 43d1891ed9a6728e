// Package oakestra makes applications of Oakestra's deployment descriptors, of version v2.0: one for
// each application, a service for each microservice.
//
// Where Oakestra's documentation and its schema differ, the schema counts and the note says so.
package oakestra
