// Package repair drops single unreadable records from the store of a root or a cluster, and
// puts dropped records back. It works on the data directory of a stopped role, so it also
// helps when the role does not start because of the record.
//
// Promises:
//
//  1. It shows and drops only records that the role cannot read.
//  2. Before a record is dropped it is on disk in a file of its own (Saved), with its key, and
//     can be put back unchanged.
//  3. Before a record is dropped the audit log of the store says who drops it.
//  4. If the role would end running instances without the record, the store is marked
//     (backup.Mark), so that the role first recovers the record from its neighbours.
//  5. Only the owner of the directory can write: otherwise the role could not read its own
//     files afterwards.
//
// It grants no additional rights: whoever may write to the directory already has the
// administrator's context and the keys of the role.
package repair
