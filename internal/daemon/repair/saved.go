package repair

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/atomicfile/statefile"
	"github.com/verge-edge/verge/internal/bus"
)

// savedDir is the folder of a data directory with what was dropped.
const savedDir = "dropped"

// savedKind is the form of a file with a dropped record. A value becomes a third longer.
var savedKind = &statefile.Kind{What: "a dropped record", Max: 2 * bus.MaxValueBytes, Version: 1}

// saved is a record that was dropped.
type saved struct {
	V int `json:"v"`
	// Role it is of, "root" or "cluster".
	Role string `json:"role"`
	Key  string `json:"key"`
	// Revision that it had, and when, by whom and why it was dropped.
	Revision uint64    `json:"revision"`
	At       time.Time `json:"at"`
	Who      string    `json:"who"`
	Why      string    `json:"why"`
	Value    []byte    `json:"value"`
}

// save writes a record into a file of its own and returns its path.
func save(dir string, s saved) (string, error) {
	folder := filepath.Join(dir, savedDir)
	if err := atomicfile.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	// A key may be longer than the name of a file, and has slashes.
	const most = 100
	sum := sha256.Sum256([]byte(s.Key))
	name := url.PathEscape(s.Key)
	path := filepath.Join(folder,
		fmt.Sprintf("%s-%s-%s.json", s.At.UTC().Format("20060102T150405.000000000Z"), name[:min(len(name), most)],
			hex.EncodeToString(sum[:4])))
	return path, savedKind.Write(path, s)
}
