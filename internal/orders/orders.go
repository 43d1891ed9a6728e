package orders

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// Max bounds the file, and the log, in bytes.
	Max = 64 << 20
	// leastLog is what the log may have before it is worth to write the file anew; a
	// longer file may have a log as long as itself.
	leastLog = 256 << 10
	sumBytes = 8 // of a line: its checksum in hexadecimal
)

// ErrDamaged is wrapped where the file is there but cannot be understood.
var ErrDamaged = errors.New("damaged")

// kind of the file. The log beside it is of the same form: one that is read in another
// is written anew with the file, see Store.
var kind = &statefile.Kind{What: "the orders of a worker", Max: Max, Version: wire.Version}

// file is what the file has.
type file struct {
	engineapi.EngineOrders
	// Log names the log that continues this.
	Log string `json:"log,omitempty"`
}

// head is the first line of a log.
type head struct {
	V   int    `json:"v"`
	Log string `json:"log"`
}

// Store is where one engine keeps its orders. It has one owner and no lock.
type Store struct {
	path, logPath string
	id            string // of the log; "": the next change writes the file
	base, log     int    // bytes of the file and of the log; 0: there is no log
}

// At is the store in a worker's data directory.
func At(dir string) *Store {
	return &Store{path: filepath.Join(dir, engineapi.EngineOrdersFile), logPath: filepath.Join(dir, engineapi.EngineChangesFile)}
}

// Path of the file.
func (s *Store) Path() string { return s.path }

// Load reads what is stored. No file is os.ErrNotExist, one that cannot be understood
// ErrDamaged, one of a newer form a *statefile.NewerError.
func (s *Store) Load() (engineapi.EngineOrders, error) {
	s.id, s.base, s.log = "", 0, 0
	stored, err := kind.Load(s.path)
	if err != nil && !statefile.Damaged(err) {
		return engineapi.EngineOrders{}, err
	}
	var f file
	if err == nil {
		err = json.Unmarshal(stored.Data, &f)
	}
	if err != nil {
		return engineapi.EngineOrders{}, fmt.Errorf("%s is %w: %w", s.path, ErrDamaged, err)
	}
	size := len(stored.Data)
	if f.Log == "" { // of a version without logs
		return f.EngineOrders, nil
	}
	log, err := atomicfile.ReadBounded(s.logPath, Max)
	if errors.Is(err, os.ErrNotExist) {
		if stored.Kept == "" {
			s.id, s.base = f.Log, size
		}
		return f.EngineOrders, nil
	}
	if err != nil && !errors.Is(err, atomicfile.ErrTooLarge) {
		return engineapi.EngineOrders{}, err
	}
	o, whole := replay(f, log)
	if whole && stored.Kept == "" {
		s.id, s.base, s.log = f.Log, size, len(log)
	}
	return o, nil
}

// replay makes the changes of a log. whole: all of it was read, and it can be
// continued.
func replay(f file, log []byte) (o engineapi.EngineOrders, whole bool) {
	o = f.EngineOrders
	var h head
	line, log, ok := next(log)
	if !ok || json.Unmarshal(line, &h) != nil || h.Log != f.Log {
		return o, false
	}
	for len(log) > 0 {
		var c engineapi.EngineChanges
		if line, log, ok = next(log); !ok || json.Unmarshal(line, &c) != nil || c.From != o.Have {
			return o, false
		}
		o = o.With(&c)
	}
	return o, true
}

// next is the first line of a log, and what follows it; false if it is not whole.
func next(log []byte) (line, rest []byte, ok bool) {
	line, rest, ok = bytes.Cut(log, []byte("\n"))
	if !ok || len(line) < sumBytes+1 {
		return nil, nil, false
	}
	sum, err := strconv.ParseUint(string(line[:sumBytes]), 16, 32)
	line = line[sumBytes+1:]
	return line, rest, err == nil && uint32(sum) == crc32.ChecksumIEEE(line)
}

// line of a log.
func line(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode a change of the orders: %w", err)
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(b), b), nil
}

// Write stores all orders; they are on disk when it returns. Parts that a newer agent names and
// this engine does not know are not in the file, so they are not named there either.
func (s *Store) Write(o *engineapi.EngineOrders) error {
	id := wire.NewID()
	f := file{EngineOrders: *o, Log: id}
	f.Parts = slices.DeleteFunc(slices.Clone(o.Parts), func(p string) bool {
		return !slices.Contains(engineapi.OrderParts(), p)
	})
	b, err := json.Marshal(&f)
	if err != nil {
		return fmt.Errorf("encode the orders: %w", err)
	}
	if err := kind.Put(s.path, b, atomicfile.Write); err != nil {
		s.id = "" // which of them is there is not known
		return err
	}
	s.id, s.base, s.log = id, len(b), 0
	_ = os.Remove(s.logPath) // it is of another file: nobody reads it
	return nil
}

// Change stores what c makes of the orders, which next is; it is on disk when it
// returns.
func (s *Store) Change(c *engineapi.EngineChanges, next *engineapi.EngineOrders) error {
	b, err := line(c)
	if err != nil {
		return err
	}
	if s.id == "" || s.log+len(b) > max(s.base, leastLog) {
		return s.Write(next)
	}
	if err := s.append(b); err != nil {
		s.id = "" // the log may end in the middle of it
		return fmt.Errorf("store a change of the orders: %w", err)
	}
	return nil
}

// append adds lines to the log, which it begins if there is none.
func (s *Store) append(b []byte) error {
	flags := os.O_WRONLY | os.O_APPEND
	if s.log == 0 {
		h, err := line(head{V: wire.Version, Log: s.id})
		if err != nil {
			return err
		}
		b = append(h, b...)
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(s.logPath, flags, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil && s.log == 0 {
		err = atomicfile.SyncDir(filepath.Dir(s.logPath))
	}
	if err == nil {
		s.log += len(b)
	}
	return err
}
