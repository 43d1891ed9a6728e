// Package volumemove moves the volumes of a stopped instance to another worker: the worker that
// has them packs them into the cluster's object store, the other one unpacks them, and the
// instance starts there. It makes snapshots of a volume and restores them in the same way.
//
// Promises:
//
//  1. The instance is given to the new worker only after that has unpacked all volumes and
//     compared them with what was packed.
//  2. After a move that fails or is cancelled the instance starts again where it was, with its
//     volumes.
//  3. The copy that the instance has left stays on its worker until somebody removes it, and
//     counts no more.
package volumemove
