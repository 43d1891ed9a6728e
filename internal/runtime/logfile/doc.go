// Package logfile keeps the output of an instance in a directory: one live file
// that programs append to, and a bounded number of archived segments.
//
//	output.log           live: stdout and stderr of every attempt, in order
//	output.log.<offset>  segment: the bytes from that offset on
//	output.base          offset of the live file's first byte, where not 0
//
// Promises:
//
//  1. A program holds the live file itself (O_APPEND), no pipe: nothing that
//     happens to the engine can block it, kill it, or lose what it writes.
//  2. Offsets count the bytes ever logged in the directory and never go back.
//     They are the offsets in the live file, because rotation does not truncate:
//     it copies the head into a segment, renames that into place, and then gives
//     the copied blocks back to the file system (a hole). What is written
//     meanwhile is appended behind, untouched.
//  3. What is archived is known from the names and sizes of the segments alone.
//     A crash between copy and hole leaves some bytes in both places; readers
//     prefer the segment, the next rotation makes the hole.
//  4. Readers need no lock and no engine: they read, then look whether a
//     rotation overtook them, and if so read again.
//
// Limits, stated because they cost lines:
//
//   - On a file system without holes (FAT, some network file systems) the live
//     file grows to Options.MaxWhole and is then copied and truncated; a line
//     written in that instant may be lost. Rotate warns once per directory.
//   - A program that truncates its own output (a shell's "> /dev/stderr" opens
//     the file anew and does so) loses what was not archived. Offsets stay
//     monotonic when the next Rotate sees it before as much was written again
//     as had been archived; "2>&1", ">&2" and ">> /dev/stderr" are harmless.
//   - Nothing is fsynced: after a loss of power the last segment may be short.
//     Readers count what is missing as lost.
package logfile
