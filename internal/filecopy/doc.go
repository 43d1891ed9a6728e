// Package filecopy carries a file, or a directory with all that is in it, as a tar
// stream from one directory to another that may be far away, for `verge cp`. Both ends
// see their directory as an os.Root: the side of an instance, and that of the user.
//
// Promises:
//
//  1. Nothing outside of the root is read or written, whatever links are in it and
//     whatever the stream says.
//  2. A file is there as a whole or not at all: it is written under another name
//     (.verge-cp-…), which is gone when Unpack returns, and renamed when it is complete.
//  3. A stream is complete only with its last entry: one that broke off is an error.
//  4. What can be carried is bounded, in entries (those that are left out count) and in
//     bytes, and by the room of the file system that each file is written to.
//  5. Files and directories keep their permissions and files the time of their last
//     change; owners are not carried, nor set-user-ID bits, extended attributes, access
//     lists and capabilities: they are rights, and who copies need not have them. Links
//     and special files are left out, and said. The holes of a sparse file arrive as
//     zeros, and count.
//  6. With Target.Sync, what Unpack says is there survives the loss of power.
package filecopy
