package acme

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/secrets"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Table is the values, by ID, without their contents.
var Table = table.Add(&state.Schema, records.Kind{
	Prefix: Key, Fate: records.Aside, Drop: "the certificate or account is made anew by the gateway that needs it",
}, table.Rules[Record]{Keep: (*Record).bare})

// Key + hash of its key: acme.Record. No key of a store may have all that the key of
// a value may.
const Key = "acme."

// Bounds of what the gateways of a cluster share.
const (
	MaxValues = 8192     // values
	MaxBytes  = 64 << 20 // of all values
	MaxLocks  = 1024
	// LockLease is how long a lock lasts whose owner is not heard of.
	LockLease = 30 * time.Second
)

// Record is a value that gateways share, sealed for the cluster itself.
type Record struct {
	V        int       `json:"v"`
	Key      string    `json:"key"`
	Modified time.Time `json:"modified"`
	Size     int       `json:"size"` // of the value
	// SealKey is the id of the key that it is sealed for.
	SealKey string `json:"seal_key"`
	// Sealed is left out in the model.
	Sealed []byte `json:"sealed,omitempty"`
}

// bare is what is kept in memory.
func (r *Record) bare() *Record {
	b := *r
	b.Sealed = nil
	return &b
}

// Purpose is what the value is sealed for.
func (r *Record) Purpose() string { return "verge acme\x00" + r.Key }

// Lock is who works on something. Locks are of this process: who has one says so
// again before its lease ends, also to a successor.
type Lock struct {
	Owner string // worker/owner
	Until time.Time
}

// acmeIssueLock + host is the lock of who asks for its certificate.
const acmeIssueLock = "issue_cert_"

// ID is the id of a value in the store: a hash, since keys of gateways may be long.
func ID(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

// Check says what is wrong with a request: its keys must be of an account, or of a
// host that is published here with a certificate by ACME.
func Check(m *state.Model, q rpc.ACMERequest) error {
	keys := []string{q.Key}
	check := func(key string) error { return acmeKey(m, key) }
	switch q.Op {
	case rpc.ACMELoad, rpc.ACMEDelete, rpc.ACMEList:
	case rpc.ACMELock, rpc.ACMEUnlock:
		if q.Owner == "" || len(q.Owner) > 64 {
			return fmt.Errorf("the owner of a lock has 1 to 64 bytes, this one %d", len(q.Owner))
		}
		check = func(name string) error { return acmeLockName(m, name) }
	case rpc.ACMEStore:
		if len(q.Values) == 0 || len(q.Values) > rpc.MaxACMEValues {
			return fmt.Errorf("%d values are stored at once, 1 to %d can be", len(q.Values), rpc.MaxACMEValues)
		}
		keys, check = records.SortedKeys(q.Values), func(key string) error { return acmeFile(m, key) }
		for _, key := range keys {
			if n := len(q.Values[key]); n > rpc.MaxACMEValue {
				return fmt.Errorf("the value of %.100q has %d bytes, at most %d are kept", key, n, rpc.MaxACMEValue)
			}
		}
	default:
		return fmt.Errorf("%.20q is not known", q.Op)
	}
	for _, key := range keys {
		if key == "" || len(key) > rpc.MaxACMEKey || path.Clean(key) != key ||
			strings.ContainsFunc(key, func(r rune) bool { return r < ' ' }) {
			return fmt.Errorf("%.100q cannot be a key", key)
		}
		if err := check(key); err != nil {
			return err
		}
	}
	return nil
}

// acmeKey checks the key of a value: certificates/AUTHORITY/HOST/…,
// acme/AUTHORITY/users/… and acme/AUTHORITY/challenge_tokens/HOST.json.
func acmeKey(m *state.Model, key string) error {
	parts := strings.Split(key, "/")
	if parts[0] == "acme" && len(parts) >= 3 && len(parts) <= 5 && parts[2] == "users" {
		return nil
	}
	host := acmeHostOf(key)
	if host == "" {
		return fmt.Errorf("%.100q is of no kind that gateways share", key)
	}
	return acmeHost(m, host)
}

// acmeFile checks the key under which a value is stored: it is one of those that gateways
// read, and none that only fills the store.
func acmeFile(m *state.Model, key string) error {
	parts := strings.Split(key, "/")
	name := parts[len(parts)-1]
	var known bool
	switch ext := path.Ext(name); {
	case parts[0] == "certificates" && len(parts) == 4:
		known = strings.TrimSuffix(name, ext) == parts[2] && (ext == ".crt" || ext == ".key" || ext == ".json")
	case parts[0] == "acme" && len(parts) == 5 && parts[2] == "users":
		known = ext == ".json" || ext == ".key"
	default:
		known = acmeHostOf(key) != "" && len(parts) == 4 && ext == ".json"
	}
	if !known {
		return fmt.Errorf("%.100q is no value that gateways share", key)
	}
	return acmeKey(m, key)
}

// acmeHostOf is the host that a key or a lock is of, "" for none.
func acmeHostOf(key string) string {
	if host, ok := strings.CutPrefix(key, acmeIssueLock); ok {
		return host
	}
	parts := strings.Split(key, "/")
	switch {
	case parts[0] == "certificates" && (len(parts) == 3 || len(parts) == 4):
		return parts[2]
	case parts[0] == "acme" && len(parts) == 4 && parts[2] == "challenge_tokens":
		return strings.TrimSuffix(parts[3], ".json")
	}
	return ""
}

// acmeLockName checks the name of a lock: of a host, of the making of an account, or of
// the question when a certificate is to be renewed.
func acmeLockName(m *state.Model, name string) error {
	if host, ok := strings.CutPrefix(name, acmeIssueLock); ok {
		return acmeHost(m, host)
	}
	if strings.HasPrefix(name, "register_acme_account") || strings.HasPrefix(name, "ari_") {
		return nil
	}
	return fmt.Errorf("%.100q is no lock of gateways", name)
}

func acmeHost(m *state.Model, host string) error {
	for _, r := range m.Names {
		for i := range r.Ports {
			if in := r.Ports[i].Ingress; in != nil && in.TLS.Mode == api.TLSACME && strings.ToLower(in.Host) == host {
				return nil
			}
		}
	}
	return fmt.Errorf("host %.100q is not published here with tls: acme", host)
}

// Forbidden says why the namespace that publishes the host of a request may not, "" if
// it may: such hosts get no new certificate.
func Forbidden(m *state.Model, q rpc.ACMERequest) (host, why string) {
	keys := append(records.SortedKeys(q.Values), q.Key)
	for _, r := range m.Names {
		for i := range r.Ports {
			in := r.Ports[i].Ingress
			if in == nil || in.TLS.Mode != api.TLSACME {
				continue
			}
			host := strings.ToLower(in.Host)
			if !slices.ContainsFunc(keys, func(key string) bool { return acmeHostOf(key) == host }) {
				continue
			}
			if why := m.Publish().Forbids(cmp.Or(r.Namespace, api.DefaultNamespace), &r.Ports[i]); why != "" {
				return host, why
			}
		}
	}
	return "", ""
}

// Below are the values of a key and below it, in order.
func Below(m *state.Model, key string) (out []*Record) {
	for _, r := range Table.Rows(m.DB) {
		if r.Key == key || strings.HasPrefix(r.Key, key+"/") {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *Record) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// Readable reports whether the value under a key can be opened: one that was sealed for a key that the cluster had before is as good as
// none.
func Readable(m *state.Model, key string) bool {
	r := Table.Rows(m.DB)[ID(key)]
	return r != nil && r.Key == key && r.SealKey == secrets.VaultOf(m).Key.ID()
}

// MakeRoom are the values that make room for others: of hosts that are not published any
// more, the oldest first.
func MakeRoom(m *state.Model, next map[string]*Record) (drop []string, err error) {
	n, size := len(Table.Rows(m.DB)), 0
	for _, r := range Table.Rows(m.DB) {
		size += r.Size
	}
	for id, r := range next {
		size += r.Size
		if old := Table.Rows(m.DB)[id]; old != nil {
			size -= old.Size
		} else {
			n++
		}
	}
	if n <= MaxValues && size <= MaxBytes {
		return nil, nil
	}
	var gone []string
	for _, id := range records.SortedKeys(Table.Rows(m.DB)) {
		if next[id] == nil && acmeKey(m, Table.Rows(m.DB)[id].Key) != nil {
			gone = append(gone, id)
		}
	}
	slices.SortStableFunc(gone, func(a, b string) int { return Table.Rows(m.DB)[a].Modified.Compare(Table.Rows(m.DB)[b].Modified) })
	for _, id := range gone[:min(len(gone), bus.MaxCommitOps-len(next))] {
		if n <= MaxValues && size <= MaxBytes {
			break
		}
		n, size, drop = n-1, size-Table.Rows(m.DB)[id].Size, append(drop, id)
	}
	if n > MaxValues || size > MaxBytes {
		return nil, wire.Problemf(507, "too-many", "publish fewer hosts with tls: acme",
			"there are too many certificates by ACME", "the cluster keeps at most %d values of %d MiB in all",
			MaxValues, MaxBytes>>20)
	}
	return drop, nil
}
