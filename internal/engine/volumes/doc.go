// Package volumes has the named volumes of a worker: it makes, lists and removes them, and
// moves them through the object store of the cluster.
//
// Promises:
//
//  1. A volume that was moved is in its place only as a whole, with the digest of what was
//     packed.
//  2. Removal happens in one step: an instance that comes then begins with an empty volume.
//  3. Nothing outside of the directories that the operator allows is given to an instance.
package volumes
