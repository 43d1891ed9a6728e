package stream

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/highwayhash" // what the server makes its checksums with
)

// The files of the log, as the server writes them: records of a length, a
// sequence number, a time, the length of the subject, subject, data and checksum.
const (
	blockHeader   = 4 + 8 + 8 + 2
	blockChecksum = 8
	blockLargest  = 32 << 20  // longer records are rubbish
	blockHeaders  = 1 << 31   // bit of the length: it has headers
	maxBlock      = 256 << 20 // bytes of a file that are looked at

	// Bits of the sequence number: it is erased, or only tells what was.
	blockNoMessage = 3 << 62
)

// Check looks at the files of the log below dir before the server opens
// them. The server takes the first record that it cannot read for the torn end of
// a write, drops it with all that follows, and says nothing. A commit is not begun
// before the one before it is on disk, so a torn write is the last record of the
// last file. Anything else is damage, and what follows it was acknowledged.
//
// had is the last message that the log is known to have had.
func Check(dir, stream, subject string, had uint64) error {
	files, err := filepath.Glob(filepath.Join(dir, "jetstream", "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	if err != nil {
		return err
	}
	type file struct {
		n    uint64
		path string
	}
	var blocks []file
	for _, path := range files {
		if n, ok := blockNumber(filepath.Base(path)); ok {
			blocks = append(blocks, file{n, path})
		}
	}
	slices.SortFunc(blocks, func(a, b file) int { return int(a.n) - int(b.n) })
	var last uint64
	for i, b := range blocks {
		seq, err := checkBlock(b.path, block{stream, subject, b.n}, i == len(blocks)-1)
		if err != nil {
			return err
		}
		last = max(last, seq)
	}
	if last < had {
		return fmt.Errorf("the log in %s ends with message %d and had %d before: %w", dir, last, had, errLogDamaged)
	}
	return nil
}

// blockNumber of a file of messages, by its name.
func blockNumber(name string) (n uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, ".blk")
	n, err := strconv.ParseUint(digits, 10, 32)
	return n, ok && err == nil
}

// errLogDamaged ends in what to do about it.
var errLogDamaged = errors.New("the data of the store is damaged: restore the directory from a backup, or delete it to start empty")

// block is a file of messages: of a stream, and its number.
type block struct {
	stream, subject string
	n               uint64
}

// checkBlock returns the sequence number of the last message in a file.
func checkBlock(path string, b block, last bool) (seq uint64, err error) {
	st, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("look at the store: %w", err)
	}
	if st.Size() > maxBlock {
		return 0, fmt.Errorf("%s has %d bytes, which no file of a store has: %w", path, st.Size(), errLogDamaged)
	}
	buf, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("look at the store: %w", err)
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%d", b.stream, b.n))
	sum, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		return 0, fmt.Errorf("look at the store: %w", err)
	}
	at := 0
	for at < len(buf) {
		size := recordAt(buf[at:], sum)
		if size == 0 {
			break
		}
		if got := binary.LittleEndian.Uint64(buf[at+4:]); got&blockNoMessage == 0 {
			seq = max(seq, got)
		}
		at += size
	}
	if at == len(buf) {
		return seq, nil
	}
	if !last || followed(buf[at+1:], b.subject, sum) {
		return 0, fmt.Errorf("%s cannot be read from byte %d on, and more was stored after it: %w", path, at, errLogDamaged)
	}
	return seq, nil
}

// recordAt is the size of the record at the beginning of b, 0 if it is none.
func recordAt(b []byte, sum hash.Hash) int {
	if len(b) < blockHeader+blockChecksum {
		return 0
	}
	length := binary.LittleEndian.Uint32(b)
	headers := length&blockHeaders != 0
	length &^= blockHeaders
	subject := int(binary.LittleEndian.Uint16(b[20:]))
	if length > blockLargest || int(length) > len(b) || int(length) < blockHeader+blockChecksum {
		return 0
	}
	body := b[blockHeader : length-blockChecksum]
	rest := subject
	if headers {
		rest += 4
	}
	if rest > len(body) {
		return 0
	}
	sum.Reset()
	_, _ = sum.Write(b[4:20]) // a hash takes everything
	_, _ = sum.Write(body[:subject])
	_, _ = sum.Write(body[rest:])
	if !bytes.Equal(sum.Sum(nil), b[length-blockChecksum:length]) {
		return 0
	}
	return int(length)
}

// followed says whether there is a record of the subject anywhere in b.
func followed(b []byte, subject string, sum hash.Hash) bool {
	for from := 0; ; {
		i := bytes.Index(b[from:], []byte(subject))
		if i < 0 {
			return false
		}
		if begin := from + i - blockHeader; begin >= 0 && recordAt(b[begin:], sum) > 0 {
			return true
		}
		from += i + 1
	}
}
