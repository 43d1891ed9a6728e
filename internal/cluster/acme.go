package cluster

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/wire"
)

// keyACME + hash of its key: acmeRecord. No key of a store may have all that the key of
// a value may.
const keyACME = "acme."

// Bounds of what the gateways of a cluster share.
const (
	maxACME      = 8192     // values
	maxACMEBytes = 64 << 20 // of all values
	maxACMELocks = 1024
	// acmeLease is how long a lock lasts whose owner is not heard of.
	acmeLease = 30 * time.Second
)

// acmeRecord is a value that gateways share, sealed for the cluster itself.
type acmeRecord struct {
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
func (r *acmeRecord) bare() *acmeRecord {
	b := *r
	b.Sealed = nil
	return &b
}

func (r *acmeRecord) purpose() string { return "verge acme\x00" + r.Key }

// acmeLock is who works on something. Locks are of this process: who has one says so
// again before its lease ends, also to a successor.
type acmeLock struct {
	owner string // worker/owner
	until time.Time
}

// acmeIssueLock + host is the lock of who asks for its certificate.
const acmeIssueLock = "issue_cert_"

func acmeID(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

// GatewayACME implements rest.Backend. Only workers that may be gateways with TLS are
// served.
func (b backend) GatewayACME(ctx context.Context, q wire.ACMERequest) (wire.ACMEReply, error) {
	who := access.From(ctx)
	worker, ok := strings.CutPrefix(who.Name, "worker/"+b.name+"/")
	if !who.Node || !ok {
		return wire.ACMEReply{}, wire.Problemf(403, "not-a-gateway", "look at certificates with verge describe worker/NAME", "not allowed", "only gateways share what they have of ACME servers")
	}
	return b.acme(ctx, worker, q, time.Now())
}

// acme does what a gateway asks for.
func (c *core) acme(ctx context.Context, worker string, q wire.ACMERequest, now time.Time) (wire.ACMEReply, error) {
	reply := wire.ACMEReply{V: wire.Version}
	if err := wire.CheckVersion("the request of a gateway", q.V); err != nil {
		return reply, wire.Problemf(400, "wire-version", "use the same version of verge on both sides", "the request cannot be read", "%v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reload(ctx, now); err != nil {
		return reply, acmeUnstored(err)
	}
	w := c.m.Workers[worker]
	switch {
	case w == nil || !w.Revoked.IsZero() || !w.Gateway.May():
		return reply, wire.Problemf(403, "not-a-gateway", "verge worker allow-gateway "+worker, "the operator of cluster "+c.name+" has not allowed this worker to be a gateway with TLS", "%s may not use certificates", worker)
	case c.m.vault.Key == nil:
		return reply, acmeUnstored(fmt.Errorf("the cluster has no key to seal with"))
	}
	if err := c.m.mayACME(q); err != nil {
		return reply, wire.Problemf(400, "bad-acme-key", "publish the host with tls: acme", "the request of a gateway is refused", "%v", err)
	}
	host, why := c.m.acmeForbidden(q)
	forbidden := func() error {
		return wire.Problemf(403, "not-to-publish", "have it allowed by an administrator: verge namespace standing NAMESPACE hosts=…", "no certificate is asked for", "host %s: %s", host, why)
	}
	if why != "" && (q.Op == wire.ACMELock || q.Op == wire.ACMEStore) {
		return reply, forbidden()
	}
	var err error
	switch q.Op {
	case wire.ACMELoad:
		// A certificate that there is goes on to be used.
		if reply.Value, reply.Found, err = c.acmeValue(ctx, q.Key); err == nil && !reply.Found && why != "" {
			err = forbidden()
		}
	case wire.ACMEStore:
		reply.Found, err = c.acmeStore(ctx, worker, q, now)
	case wire.ACMEDelete:
		err = c.acmeDelete(ctx, q.Key)
	case wire.ACMEList:
		for _, r := range c.m.acmeBelow(q.Key) {
			reply.Entries = append(reply.Entries, wire.ACMEEntry{Key: r.Key, Modified: r.Modified, Size: r.Size})
		}
	case wire.ACMELock:
		reply.Held, err = c.acmeLock(worker+"/"+q.Owner, q.Key, now)
		reply.Lease = acmeLease
	case wire.ACMEUnlock:
		if l, ok := c.locks[q.Key]; ok && l.owner == worker+"/"+q.Owner {
			delete(c.locks, q.Key)
		}
	}
	return reply, err
}

// mayACME says what is wrong with a request: its keys must be of an account, or of a
// host that is published here with a certificate by ACME.
func (m *model) mayACME(q wire.ACMERequest) error {
	keys := []string{q.Key}
	check := m.acmeKey
	switch q.Op {
	case wire.ACMELoad, wire.ACMEDelete, wire.ACMEList:
	case wire.ACMELock, wire.ACMEUnlock:
		if q.Owner == "" || len(q.Owner) > 64 {
			return fmt.Errorf("the owner of a lock has 1 to 64 bytes, this one %d", len(q.Owner))
		}
		check = m.acmeLockName
	case wire.ACMEStore:
		if len(q.Values) == 0 || len(q.Values) > wire.MaxACMEValues {
			return fmt.Errorf("%d values are stored at once, 1 to %d can be", len(q.Values), wire.MaxACMEValues)
		}
		keys, check = records.SortedKeys(q.Values), m.acmeFile
		for _, key := range keys {
			if n := len(q.Values[key]); n > wire.MaxACMEValue {
				return fmt.Errorf("the value of %.100q has %d bytes, at most %d are kept", key, n, wire.MaxACMEValue)
			}
		}
	default:
		return fmt.Errorf("%.20q is not known", q.Op)
	}
	for _, key := range keys {
		if key == "" || len(key) > wire.MaxACMEKey || path.Clean(key) != key || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' }) {
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
func (m *model) acmeKey(key string) error {
	parts := strings.Split(key, "/")
	if parts[0] == "acme" && len(parts) >= 3 && len(parts) <= 5 && parts[2] == "users" {
		return nil
	}
	host := acmeHostOf(key)
	if host == "" {
		return fmt.Errorf("%.100q is of no kind that gateways share", key)
	}
	return m.acmeHost(host)
}

// acmeFile checks the key under which a value is stored: it is one of those that gateways
// read, and none that only fills the store.
func (m *model) acmeFile(key string) error {
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
	return m.acmeKey(key)
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
func (m *model) acmeLockName(name string) error {
	if host, ok := strings.CutPrefix(name, acmeIssueLock); ok {
		return m.acmeHost(host)
	}
	if strings.HasPrefix(name, "register_acme_account") || strings.HasPrefix(name, "ari_") {
		return nil
	}
	return fmt.Errorf("%.100q is no lock of gateways", name)
}

func (m *model) acmeHost(host string) error {
	for _, r := range m.Names {
		for i := range r.Ports {
			if in := r.Ports[i].Ingress; in != nil && in.TLS.Mode == api.TLSACME && strings.ToLower(in.Host) == host {
				return nil
			}
		}
	}
	return fmt.Errorf("host %.100q is not published here with tls: acme", host)
}

// acmeForbidden says why the namespace that publishes the host of a request may not, "" if
// it may: such hosts get no new certificate.
func (m *model) acmeForbidden(q wire.ACMERequest) (host, why string) {
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
			if why := m.publish.Forbids(cmp.Or(r.Namespace, api.DefaultNamespace), &r.Ports[i]); why != "" {
				return host, why
			}
		}
	}
	return "", ""
}

// acmeBelow are the values of a key and below it, in order.
func (m *model) acmeBelow(key string) (out []*acmeRecord) {
	for _, r := range m.acmes {
		if r.Key == key || strings.HasPrefix(r.Key, key+"/") {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *acmeRecord) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// acmeReadable: one that was sealed for a key that the cluster had before is as good as
// none.
func (m *model) acmeReadable(key string) bool {
	r := m.acmes[acmeID(key)]
	return r != nil && r.Key == key && r.SealKey == m.vault.Key.ID()
}

func (c *core) acmeValue(ctx context.Context, key string) (value []byte, found bool, err error) {
	if !c.m.acmeReadable(key) {
		return nil, false, nil
	}
	e, err := c.store.Get(ctx, keyACME+acmeID(key))
	if err != nil {
		return nil, false, acmeUnstored(err)
	}
	var r acmeRecord
	if err := json.Unmarshal(e.Value, &r); err != nil {
		return nil, false, acmeUnstored(err)
	}
	value, err = c.m.vault.Key.Open(r.purpose(), r.Sealed)
	if err != nil {
		return nil, false, acmeUnstored(fmt.Errorf("what is kept of %s cannot be opened: %w", key, err))
	}
	return value, true, nil
}

// acmeStore stores all values of a request, or none; there says that it was none since
// one of them is there already.
func (c *core) acmeStore(ctx context.Context, worker string, q wire.ACMERequest, now time.Time) (there bool, err error) {
	keys := records.SortedKeys(q.Values)
	if q.Absent && slices.ContainsFunc(keys, c.m.acmeReadable) {
		return true, nil
	}
	next := map[string]*acmeRecord{}
	t := c.m.begin()
	for _, key := range keys {
		if records.Among(c.m.Unread, keyACME+acmeID(key)) {
			return false, acmeUnstored(fmt.Errorf("what is kept of %s cannot be read, and is not written over", key))
		}
		r := &acmeRecord{V: wire.Version, Key: key, Modified: now.Round(0).UTC(), Size: len(q.Values[key]), SealKey: c.m.vault.Key.ID()}
		sealed := *r
		if sealed.Sealed, err = seal.Seal(c.m.vault.Key.Public(), r.purpose(), q.Values[key]); err != nil {
			return false, acmeUnstored(err)
		}
		next[acmeID(key)] = r
		acmeTable.Put(t.Rows, acmeID(key), &sealed)
	}
	drop, err := c.m.acmeRoom(next)
	if err != nil {
		return false, err
	}
	for _, id := range drop {
		acmeTable.Put(t.Rows, id, nil)
	}
	if err := c.keeper.Whole(ctx, t); err != nil {
		return false, acmeUnstored(err)
	}
	for _, r := range next {
		if strings.HasSuffix(r.Key, ".crt") {
			c.log.Info("a certificate by ACME is kept for the gateways of this cluster", "host", path.Base(path.Dir(r.Key)), "from", worker)
		}
	}
	return false, nil
}

// acmeRoom are the values that make room for others: of hosts that are not published any
// more, the oldest first.
func (m *model) acmeRoom(next map[string]*acmeRecord) (drop []string, err error) {
	n, size := len(m.acmes), 0
	for _, r := range m.acmes {
		size += r.Size
	}
	for id, r := range next {
		size += r.Size
		if old := m.acmes[id]; old != nil {
			size -= old.Size
		} else {
			n++
		}
	}
	if n <= maxACME && size <= maxACMEBytes {
		return nil, nil
	}
	var gone []string
	for _, id := range records.SortedKeys(m.acmes) {
		if next[id] == nil && m.acmeKey(m.acmes[id].Key) != nil {
			gone = append(gone, id)
		}
	}
	slices.SortStableFunc(gone, func(a, b string) int { return m.acmes[a].Modified.Compare(m.acmes[b].Modified) })
	for _, id := range gone[:min(len(gone), bus.MaxCommitOps-len(next))] {
		if n <= maxACME && size <= maxACMEBytes {
			break
		}
		n, size, drop = n-1, size-m.acmes[id].Size, append(drop, id)
	}
	if n > maxACME || size > maxACMEBytes {
		return nil, wire.Problemf(507, "too-many", "publish fewer hosts with tls: acme", "there are too many certificates by ACME", "the cluster keeps at most %d values of %d MiB in all", maxACME, maxACMEBytes>>20)
	}
	return drop, nil
}

func (c *core) acmeDelete(ctx context.Context, key string) error {
	for chunk := range slices.Chunk(c.m.acmeBelow(key), bus.MaxCommitOps) {
		t := c.m.begin()
		for _, r := range chunk {
			acmeTable.Put(t.Rows, acmeID(r.Key), nil)
		}
		if err := c.keeper.Whole(ctx, t); err != nil {
			return acmeUnstored(err)
		}
	}
	return nil
}

// acmeLock gives a lock to who asks, or its lease again, unless another has it whose
// lease has not ended and who may be a gateway still.
func (c *core) acmeLock(owner, name string, now time.Time) (held bool, err error) {
	for key, l := range c.locks {
		worker, _, _ := strings.Cut(l.owner, "/")
		if w := c.m.Workers[worker]; !now.Before(l.until) || w == nil || !w.Revoked.IsZero() || !w.Gateway.May() {
			delete(c.locks, key)
		}
	}
	l, taken := c.locks[name]
	switch {
	case taken && l.owner != owner:
		return false, nil
	case !taken && len(c.locks) >= maxACMELocks:
		return false, wire.Problemf(503, "too-many-locks", "nothing: it is tried again", "too many certificates are worked on", "%d at a time", maxACMELocks)
	}
	c.locks[name] = acmeLock{owner, now.Add(acmeLease)}
	return true, nil
}

func acmeUnstored(err error) error {
	if p, ok := err.(*wire.Problem); ok { //nolint:errorlint // one of ours, as it is
		return p
	}
	return wire.Problemf(507, "not-stored", "free some space or repair the disk of the cluster; gateways try again by themselves", "what gateways share cannot be read or stored", "%v", err)
}
