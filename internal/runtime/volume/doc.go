// Package volume packs a directory of an instance into one stream, and makes the same
// directory of it elsewhere.
//
// What it promises:
//
//  1. The same directory packs to the same bytes, so that the hash of the stream is the
//     hash of the directory: names, contents, modes, owners, links, times (to the
//     second), and of extended attributes those of programs (user.*), POSIX access lists
//     and capabilities of files, of all that is in it.
//  2. Nothing is written outside of the directory that is unpacked into, whatever the
//     stream says.
//  3. No more is written than was read, and no more than there is room for.
//  4. Memory does not grow with what is packed, but for the names of files with more
//     than one link.
//
// Sockets and pipes hold nothing; they are left out and counted. A device is an error.
// Other extended attributes are of one machine and are not carried. Runs of zeros become
// holes, but in the stream they are bytes as others. The directory must not change while
// it is packed.
package volume
