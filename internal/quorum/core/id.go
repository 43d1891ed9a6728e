package core

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
)

// ID of a server. It is random and names one server with one disk: a server that has lost
// anything joins with another one, since raft relies on what an id has promised.
//
// The lowest bit says that it is a witness. So each server knows that of each other one,
// whatever it has applied so far.
type ID uint64

// NewID draws an id from random, which is crypto/rand.Reader outside of tests.
func NewID(random io.Reader, witness bool) (ID, error) {
	var b [8]byte
	for {
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return 0, fmt.Errorf("draw the id of a server: %w", err)
		}
		id := ID(binary.LittleEndian.Uint64(b[:])) &^ 1
		if witness {
			id |= 1
		}
		// The library keeps the last two ids for itself, and zero for nobody.
		if id > 1 && id < math.MaxUint64-1 {
			return id, nil
		}
	}
}

// Witness reports whether the server votes without holding any state.
func (id ID) Witness() bool { return id&1 == 1 }

// String is the id as it is written everywhere: 16 hexadecimal digits.
func (id ID) String() string {
	s := strconv.FormatUint(uint64(id), 16)
	const zeros = "0000000000000000"
	return zeros[len(s):] + s
}
