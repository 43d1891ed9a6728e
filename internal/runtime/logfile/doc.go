// Package logfile keeps the output of an instance in a directory, within a bound that holds
// at every moment.
//
//	output.pipe            named pipe: stdout and stderr of the program
//	output.log             live: what was read from it last
//	output.log.<offset>    segment: the bytes from that offset on
//	output.times[.<offset>] when the bytes of the live file, of a segment, were read
//	output.base            offset of the live file's first byte, where not 0
//	output.starts          where the output of the last starts begins
//
// A program writes to the pipe. A Collector takes chunks from it and appends each to the
// live file. Before that has more than its share of MaxSize it becomes a segment, and before
// there is a segment too many the oldest is removed. A program that writes faster than
// that waits, as it would for a slow disk; one that writes more than 32 MiB/s for long is
// slowed down to that.
//
// Promises:
//
//  1. The files of a log never have more than MaxSize bytes, also while nobody reads: then
//     nothing is written to the disk, and the pipe holds 64 KiB.
//  2. A program never fails because nobody reads: it has the pipe open for reading too, so
//     there is always a reader. The engine reads; while it does not answer, its agent does.
//     Only while neither runs does a program wait that has filled its pipe. It goes on when
//     one of them is back.
//  3. Any number of processes may read one pipe. Each takes a chunk and writes it under the
//     lock of the directory, so that no order is lost and a takeover needs no protocol.
//  4. An idle pipe costs its reader a descriptor and a parked goroutine. There is no buffer
//     and no timer for it.
//  5. Offsets count the bytes ever logged in the directory and never go back. Where the live
//     file begins is known from the segments alone: a crash between the steps of a rotation
//     is completed by the next write.
//  6. Readers of the log need no lock and no engine: they read, then look whether a rotation
//     overtook them, and if so read again.
//
// Limits, stated because they cost lines:
//
//   - What is in a pipe when its program ends while neither engine nor agent run is lost:
//     the kernel keeps a pipe for as long as somebody has it open.
//   - While the disk is full output is dropped, and the log says how much when there is room
//     again: a program must not stop because of its log.
//   - Nothing is fsynced: after a loss of power the last segment may be short. Readers count
//     what is missing as lost.
//
// A program that an engine of before 26 November 2026 has started, which had no pipes, writes
// to the live file itself until it is started again (Direct). Rotate bounds that: it copies
// the head of the file into a segment and gives its blocks back to the file system. It is
// called every few seconds, so the bound does not hold in between. Once no such engine can be
// upgraded from directly, rotate.go, the hole files, settleDirect, Open and the marks of
// engine/logs can go.
package logfile
