package descriptor

import (
	"fmt"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/words"
)

// data checks what a service says it reads.
func (v *validator) data(path string, entries []string) {
	for i, entry := range entries {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case v.spoiled(at) || v.full() || api.IsObjectName(entry) || api.DataHost(entry) != "":
		case strings.Contains(entry, "://"):
			// It is not repeated: what stands before the @ of a URL may be a password.
			v.complain(at, "is no URL of a host that workers can measure",
				"write https://data.example.org/file or postgres://db.example.org:5432, without a user")
		default:
			v.complain(at, words.Quote(entry)+" is neither the name of an object nor a URL",
				"write models/cats.onnx for an object of the namespace, or https://data.example.org/file")
		}
	}
	v.distinct(path, entries)
}
