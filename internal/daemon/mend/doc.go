// Package mend drops single records of the store of a root or a cluster that cannot be
// read, and puts back what was dropped. It works on the data directory of a role that does
// not run, so that it helps as well where the role does not start because of the record.
//
// Promises:
//
//  1. Only a record that its role cannot read is shown or dropped.
//  2. What is dropped is on disk in a file of its own before (Saved), with its key, and can
//     be put back as it was.
//  3. Who did it is in the audit log of the store before it is done.
//  4. A record without which a role would end what runs is made anew of what those around
//     the role hold: it is marked so that it asks them first (backup.Mark).
//  5. Nothing is written by a user who does not own the directory: the role could not read
//     its own files afterwards.
//
// Whoever may write there has the context of the administrator, and the keys of the role:
// nobody may do more by this than without.
package mend
