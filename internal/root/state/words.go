package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/verge-edge/verge/internal/wire"
)

const (
	// MaxWords is the most bytes of a reason.
	MaxWords = 2 << 10
	// MaxName is the most bytes of an address or a name.
	MaxName = 300
)

// Cut shortens s to n bytes, and says so.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + " …"
}

// TakeReport takes over what a cluster says of one service, if it is of that kind; ok says
// whether it is. tame makes of it what may be kept.
func TakeReport[R any, P interface {
	*R
	Key() string
}](kept *map[string]P, ch wire.Change, prefix string, most int, tooMany string, tame func(P)) (ok bool, err error) {
	key, found := strings.CutPrefix(ch.Key, prefix)
	if !found {
		return false, nil
	}
	if ch.Deleted {
		delete(*kept, key)
		return true, nil
	}
	r := P(new(R))
	if err := json.Unmarshal(ch.Value, r); err != nil {
		return true, err
	}
	if r.Key() != key || len(key) > MaxName {
		return true, fmt.Errorf("it is about %q", Cut(r.Key(), MaxName))
	}
	if (*kept)[key] == nil && len(*kept) >= most {
		return true, errors.New(tooMany)
	}
	tame(r)
	if *kept == nil {
		*kept = map[string]P{}
	}
	(*kept)[key] = r
	return true, nil
}
