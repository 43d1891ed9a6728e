// Package wal keeps the log, the hard state and the snapshots of one server of a tier on disk.
//
// # Form
//
// A segment is a file of zeros of a fixed size, log-<number>-<first index>. Batches are
// written into it one after the other, each begun when the one before it is synced. A batch
// begins at a sector of 512 bytes; the first byte of each of its sectors is a mark, 0xa5 in its
// first sector and 0x5a in the others. It holds term, vote and commit, the CRC-32C of itself
// and of the batch before, and entries. So one write and one fdatasync save entries and hard
// state together.
//
// The first batch of each segment names server and segment. A segment that is complete ends
// with a seal: after it there has to be another one. A new segment is filled beside and renamed.
//
// snap-<term>-<index> is a snapshot: blocks with a CRC-32C that each continues that of the block
// before, of which the first has index, term and members, and the last the length. It is
// written beside, synced, read back and renamed. Two are kept, and the log from the older one
// on: if the newer one turns out damaged, the older one and the log have the same.
//
// # Torn or damaged
//
// A power cut may leave any of the sectors of the batch that was being written, and none of
// it was acknowledged. At the end of the last segment, an invalid batch of which a sector was
// never written, with nothing after it, is therefore torn, and is cut off. All else that is
// not as it was written is damage (ErrDamaged): a wrong CRC although all sectors are there, an
// invalid batch before another one, a seal without a segment after it, a missing segment, a
// log that ends before its snapshot or before what it says is committed.
//
// A server with damage must not vote or acknowledge any more under its id. What a disk loses
// of the very last batch looks like a torn one; the leader's first heartbeat then asks for
// more than there is, and core.Node faults.
package wal
