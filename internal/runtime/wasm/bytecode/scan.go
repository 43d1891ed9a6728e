package bytecode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

const (
	// MaxModule is the largest module in bytes.
	MaxModule = 64 << 20
	// MaxTable is how many entries the tables of a module have together. They are not
	// in the module's own memory, so nothing else bounds them; a Go program of 60 MB
	// has a tenth of that.
	MaxTable = 1 << 20
	// pageSize is the unit of a module's memory.
	pageSize = 64 << 10
)

// Numbers of sections, https://webassembly.github.io/spec/core/binary/modules.html.
const (
	tableSection  = 4
	memorySection = 5
)

var errTruncated = errors.New("it ends in the middle")

// header is what every module of version 1 begins with.
var header = []byte("\x00asm\x01\x00\x00\x00")

// Bound says what a module needs at least, and bounds what it may take: a table
// without a largest size gets one. It looks at no more than it must; the rest is
// checked when the module is compiled.
func Bound(module []byte) (out []byte, minMemory int64, err error) {
	switch {
	case len(module) > MaxModule:
		return nil, 0, fmt.Errorf("it has %d bytes, and %d are the most", len(module), MaxModule)
	case len(module) >= 8 && string(module[:4]) == string(header[:4]) && module[4] == 0x0d:
		return nil, 0, errors.New("it is a component; take the core module of it (WASI preview 1)")
	case len(module) < len(header) || string(module[:len(header)]) != string(header):
		return nil, 0, errors.New("it is no WebAssembly module")
	}
	out = module
	for at := len(header); at < len(module); {
		start := at
		id := module[at]
		size, next, err := number(module, at+1)
		if err != nil || size > uint64(len(module)-next) {
			return nil, 0, fmt.Errorf("section %d: %w", id, errTruncated)
		}
		end := next + int(size) //nolint:gosec // not beyond the module
		switch body := module[next:end]; id {
		case tableSection:
			tables, err := boundTables(body)
			if err != nil {
				return nil, 0, err
			}
			section := binary.AppendUvarint([]byte{tableSection}, uint64(len(tables)))
			out = slices.Concat(module[:start], section, tables, module[end:])
		case memorySection:
			if minMemory, err = leastMemory(body); err != nil {
				return nil, 0, err
			}
		}
		at = end
	}
	return out, minMemory, nil
}

// boundTables gives each table a largest size.
func boundTables(body []byte) ([]byte, error) {
	n, at, err := number(body, 0)
	if err != nil {
		return nil, fmt.Errorf("tables: %w", err)
	}
	if n > 100 {
		return nil, fmt.Errorf("it has %d tables, and 100 are the most", n)
	}
	out := binary.AppendUvarint(nil, n)
	room := uint64(MaxTable)
	for range n {
		if at >= len(body) {
			return nil, fmt.Errorf("tables: %w", errTruncated)
		}
		kind := body[at]
		low, high, next, err := limits(body, at+1)
		if err != nil {
			return nil, fmt.Errorf("tables: %w", err)
		}
		if low > room {
			return nil, fmt.Errorf("its tables have more than %d entries", MaxTable)
		}
		high = max(min(high, room), low)
		room -= high
		out = append(out, kind, 1)
		out = binary.AppendUvarint(out, low)
		out = binary.AppendUvarint(out, high)
		at = next
	}
	if at != len(body) {
		return nil, errors.New("tables: they are of a kind that is not known here")
	}
	return out, nil
}

// leastMemory is the memory that a module begins with, in bytes.
func leastMemory(body []byte) (int64, error) {
	n, at, err := number(body, 0)
	if err != nil || n == 0 {
		return 0, err
	}
	low, _, _, err := limits(body, at)
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	if low > 1<<16 {
		return 0, errors.New("memory: it begins with more than 4 GiB")
	}
	return int64(low) * pageSize, nil
}

// limits are a smallest and largest size; a missing largest is all there is room for.
func limits(b []byte, at int) (low, high uint64, next int, err error) {
	if at >= len(b) {
		return 0, 0, 0, errTruncated
	}
	flags := b[at]
	if low, next, err = number(b, at+1); err != nil {
		return 0, 0, 0, err
	}
	if flags&1 == 0 {
		return low, 1 << 32, next, nil
	}
	high, next, err = number(b, next)
	return low, high, next, err
}

// number is an unsigned LEB128 of at most 32 bits.
func number(b []byte, at int) (n uint64, next int, err error) {
	if at > len(b) {
		return 0, 0, errTruncated
	}
	n, size := binary.Uvarint(b[at:])
	if size <= 0 || size > 5 || n >= 1<<32 {
		return 0, 0, errTruncated
	}
	return n, at + size, nil
}
