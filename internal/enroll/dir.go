package enroll

import (
	"os"
	"path/filepath"

	"github.com/verge-edge/verge/internal/wire"
)

// ofRoles are files of data directories that only one role has.
var ofRoles = map[string]string{
	"authority.pem":      "root",
	"cluster-ca-key.pem": "cluster",
}

// OwnDir refuses a data directory of another role, as one that was restored from a backup of
// a root and is given to a cluster: what is in its store would be read as something else. It
// is asked before anything is written.
func OwnDir(dir, role string) error {
	for file, of := range ofRoles {
		if of == role {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, file)); err == nil {
			return wire.Problemf(0, "other-role", "choose another --data-dir, or start verge "+of+" with this one",
				"the data directory is another role's", "%s is of a %s: it has %s", dir, of, file)
		}
	}
	return nil
}
