package descriptor

import (
	"strconv"

	"github.com/verge-edge/verge/api/internal/shape"
	"github.com/verge-edge/verge/api/internal/words"
	"github.com/verge-edge/verge/api/pattern"
)

// where names a value: its path in this file, and its pattern in the table
// of fields.
type where struct{ path, pattern string }

func (w where) field(key string) where {
	return where{shape.Join(w.path, key), shape.Join(w.pattern, key)}
}

func (w where) entry(key string) where {
	if plainKey().MatchString(key) {
		return where{shape.Join(w.path, key), shape.Join(w.pattern, "*")}
	}
	return where{w.path + "[" + words.Quote(key) + "]", shape.Join(w.pattern, "*")}
}

func (w where) item(i int) where {
	return where{w.path + "[" + strconv.Itoa(i) + "]", w.pattern + "[]"}
}

var plainKey = pattern.Lazy(`^[A-Za-z0-9_-]{1,63}$`)
