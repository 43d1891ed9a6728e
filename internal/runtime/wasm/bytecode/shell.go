package bytecode

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Numbers of sections, as in scan.go.
const (
	customSection = 0
	codeSection   = 10
)

// emptyBody is a function without variables that traps; its size comes first.
var emptyBody = []byte{3, 0, 0x00, 0x0b}

// Shell is a module without what its functions do: all that the library needs of a
// module whose machine code is there. It decodes and validates each body at each load
// otherwise, to no end, which takes twice as long as all else. Only the machine code of
// the module itself may ever be run for it, never that of the shell.
//
// A section says of which module it is, so that no two modules have the same shell: the
// library knows machine code by what it was made of.
func Shell(module []byte, digest string) ([]byte, error) {
	if len(module) < len(header) {
		return nil, errTruncated
	}
	name := "verge.shell-of"
	of := append(append(binary.AppendUvarint(nil, uint64(len(name))), name...), digest...)
	out := appendSection(append([]byte(nil), header...), customSection, of)
	for at := len(header); at < len(module); {
		start, id := at, module[at]
		size, next, err := number(module, at+1)
		if err != nil || size > uint64(len(module)-next) {
			return nil, fmt.Errorf("section %d: %w", id, errTruncated)
		}
		at = next + int(size) //nolint:gosec // not beyond the module
		switch id {
		case customSection:
			if n, name, err := number(module[:at], next); err == nil && n == 4 && at-name >= 4 && string(module[name:name+4]) == "name" {
				out = append(out, module[start:at]...) // what traces in the log call functions
			}
		case codeSection:
			n, _, err := number(module[:at], next)
			if err != nil || n > size {
				return nil, errors.New("its functions can't be counted")
			}
			section := binary.AppendUvarint(nil, n)
			for range n {
				section = append(section, emptyBody...)
			}
			out = appendSection(out, codeSection, section)
		default:
			out = append(out, module[start:at]...)
		}
	}
	if len(out) > MaxModule {
		return nil, fmt.Errorf("its shell would have %d bytes", len(out))
	}
	return out, nil
}

func appendSection(to []byte, id byte, body []byte) []byte {
	to = binary.AppendUvarint(append(to, id), uint64(len(body)))
	return append(to, body...)
}
