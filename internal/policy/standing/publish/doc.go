// Package publish decides which hosts and gateway ports a namespace may publish, by the rules that
// an administrator gave to namespaces. Who publishes what already is decided in package standing.
//
// Promises:
//
//  1. A reserved host or port goes to the namespace with the most specific entry.
//  2. Names of every machine, such as localhost, need an entry that names them.
//  3. Rules are stored and shown in one form: parsing that form again changes nothing.
package publish
