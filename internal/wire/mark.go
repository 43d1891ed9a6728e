package wire

import (
	"crypto/sha256"
	"encoding/hex"
)

// Mark identifies the data directory of whatever a worker creates outside of it. It is the
// SHA-256 of the path, in hexadecimal. Its first characters are in the names of devices and
// tables (5) and of control groups (12), in labels of containers and in the environment of
// instances (16).
func Mark(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:])
}
