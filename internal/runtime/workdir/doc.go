// Package workdir puts into the working directory of an instance what its
// descriptor promises: files and volumes. It is for instances that see the
// machine's file system as it is, without a mount namespace: a volume is a
// symbolic link to where it really is.
//
// Promises:
//
//  1. Nothing is written, made or removed outside of the working directory,
//     whatever links the instance has made in it.
//  2. A file is there as a whole or not at all, with its mode. What did not
//     change is not written again.
//  3. What was put there before and is not wanted any more is removed; what the
//     instance made itself is not.
//  4. All mounts of an instance are below one directory, and Clear ends them all,
//     those of a dead process too. Nothing is removed through a mount.
package workdir
