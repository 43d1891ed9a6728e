package wire

import (
	"crypto/sha256"
	"encoding/hex"
)

// Mark leads what a worker has made outside its data directory back to that directory: it is
// the SHA-256 of the path, in hexadecimal, and the first characters of it are in the names of
// devices and tables (5), of control groups (12), in labels of containers and in the
// environment of instances (16).
func Mark(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:])
}
