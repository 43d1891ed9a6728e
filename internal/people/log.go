package people

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/wire"
)

// keyAudit + sequence number in 16 hexadecimal digits: apiv1.AuditEntry.
const keyAudit = "audit."

const (
	// keptEntries of the log; dropBatch of them are forgotten at once.
	keptEntries = 10_000
	dropBatch   = 500
	// maxText bounds each text of an entry, in bytes.
	maxText = 300
	// MaxAuditPage is how many entries one page has at most.
	MaxAuditPage = 1000
)

// Log is the audit log of a root or cluster. It is safe for concurrent use.
type Log struct {
	Store bus.Store
	// Now says what time it is.
	Now func() time.Time

	mu sync.Mutex // held over writes, so that entries are in the order of their numbers
	// Guarded by mu, read from the store before the first write.
	read bool
	seqs []uint64 // of the entries, oldest first
	last uint64   // the highest that was given
}

// Record appends an entry and gives it its number and time. It is durable when
// Record returns nil.
func (l *Log) Record(ctx context.Context, e apiv1.AuditEntry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.load(ctx); err != nil {
		return err
	}
	e.V, e.Seq, e.At = wire.Version, l.last+1, l.Now().UTC()
	for _, text := range []*string{&e.Who, &e.From, &e.What, &e.On, &e.Result, &e.Detail} {
		if len(*text) > maxText {
			*text = strings.ToValidUTF8((*text)[:maxText], "") + "…"
		}
	}
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding an entry of the audit log: %w", err)
	}
	ops := []bus.Op{bus.Put(auditKey(e.Seq), data)}
	var old []uint64
	if n := len(l.seqs); n >= keptEntries {
		old = l.seqs[:min(n-keptEntries+dropBatch, bus.MaxCommitOps-1)]
		for _, seq := range old {
			ops = append(ops, bus.Del(auditKey(seq)))
		}
	}
	// The number is used up even if it is not known whether it was stored.
	l.last = e.Seq
	if _, err := l.Store.Commit(ctx, ops...); err != nil {
		l.read = false
		return fmt.Errorf("writing to the audit log: %w", err)
	}
	if len(old) > 0 {
		l.seqs = slices.Clone(l.seqs[len(old):])
	}
	l.seqs = append(l.seqs, e.Seq)
	return nil
}

func auditKey(seq uint64) string { return fmt.Sprintf("%s%016x", keyAudit, seq) }

// load reads which entries there are. The mutex is held.
func (l *Log) load(ctx context.Context) error {
	if l.read {
		return nil
	}
	entries, err := l.Store.List(ctx, keyAudit)
	if err != nil {
		return fmt.Errorf("reading the audit log: %w", err)
	}
	l.seqs = nil
	for _, e := range entries {
		seq, err := strconv.ParseUint(strings.TrimPrefix(e.Key, keyAudit), 16, 64)
		if err != nil {
			return fmt.Errorf("stored entry of the audit log %s: %w", e.Key, err)
		}
		l.seqs, l.last = append(l.seqs, seq), max(l.last, seq)
	}
	l.read = true
	return nil
}

// Audit reads a page of the log; see apiv1.AuditQuery.
func (l *Log) Audit(ctx context.Context, q apiv1.AuditQuery) (apiv1.AuditPage, error) {
	page := apiv1.AuditPage{Entries: []apiv1.AuditEntry{}}
	entries, err := l.Store.List(ctx, keyAudit)
	if err != nil {
		return page, fmt.Errorf("reading the audit log: %w", err)
	}
	limit := q.Limit
	if limit <= 0 || limit > MaxAuditPage {
		limit = MaxAuditPage
	}
	below := ""
	if q.Before > 0 {
		below = auditKey(q.Before)
	}
	for i := len(entries) - 1; i >= 0; i-- {
		if below != "" && entries[i].Key >= below {
			continue
		}
		var e apiv1.AuditEntry
		err := records.Load(entries[i], &e)
		if err != nil { // that it was there is shown, whoever it was of
			e = apiv1.AuditEntry{V: wire.Version, Result: "unreadable",
				Detail: fmt.Sprintf("stored record %s cannot be read: %.200v", entries[i].Key, err)}
			e.Seq, _ = strconv.ParseUint(strings.TrimPrefix(entries[i].Key, keyAudit), 16, 64) // 0: it has no number
		}
		if err == nil && e.At.Before(q.Since) {
			continue // clocks are set back: what is below may be younger
		}
		if err == nil && q.User != "" && e.Who != q.User && !strings.HasSuffix(e.Who, "/"+q.User) {
			continue
		}
		if len(page.Entries) == limit {
			page.Before = page.Entries[limit-1].Seq
			break
		}
		page.Entries = append(page.Entries, e)
	}
	slices.Reverse(page.Entries)
	return page, nil
}
