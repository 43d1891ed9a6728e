package people

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/bustest"
)

func newLog() (l *Log, store *bustest.MemStore, now *time.Time) {
	at := start
	store = bustest.NewMemStore()
	return &Log{Store: store, Now: func() time.Time { return at }}, store, &at
}

func noted(t *testing.T, l *Log, who, what string) {
	t.Helper()
	if err := l.Record(t.Context(), apiv1.AuditEntry{Who: who, What: what, Result: "ok"}); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, l *Log, q apiv1.AuditQuery) apiv1.AuditPage {
	t.Helper()
	p, err := l.Audit(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLogIsReadInPages(t *testing.T) {
	l, store, now := newLog()
	for i := range 10 {
		who := "user/bob"
		if i%2 == 1 {
			who = "admin/ann"
		}
		noted(t, l, who, fmt.Sprintf("op-%d", i))
		*now = now.Add(time.Minute)
	}
	page := read(t, l, apiv1.AuditQuery{Limit: 4})
	if len(page.Entries) != 4 || page.Entries[0].What != "op-6" || page.Entries[3].What != "op-9" ||
		page.Before != page.Entries[0].Seq {
		t.Errorf("%+v", page)
	}
	page = read(t, l, apiv1.AuditQuery{Limit: 6, Before: page.Before})
	if len(page.Entries) != 6 || page.Entries[0].What != "op-0" || page.Before != 0 {
		t.Errorf("%+v", page)
	}
	for who, n := range map[string]int{"bob": 5, "user/bob": 5, "ann": 5, "b": 0, "user/": 0} {
		if got := read(t, l, apiv1.AuditQuery{User: who}); len(got.Entries) != n {
			t.Errorf("%s: %+v", who, got)
		}
	}
	if got := read(t, l, apiv1.AuditQuery{Since: start.Add(8 * time.Minute)}); len(got.Entries) != 2 {
		t.Errorf("%+v", got)
	}
	// Another process goes on where this one ended.
	again := &Log{Store: store, Now: l.Now}
	noted(t, again, "x", "later")
	got := read(t, again, apiv1.AuditQuery{Limit: 2}).Entries
	if got[1].What != "later" || got[1].Seq != got[0].Seq+1 {
		t.Errorf("%+v", got)
	}
}

func TestLogIsBounded(t *testing.T) {
	l, store, _ := newLog()
	const n = keptEntries + dropBatch + 10
	for i := range n {
		noted(t, l, "u", fmt.Sprint(i))
	}
	list, err := store.List(t.Context(), keyAudit)
	if err != nil || len(list) > keptEntries || len(list) < keptEntries-dropBatch {
		t.Errorf("%d entries, %v", len(list), err)
	}
	page := read(t, l, apiv1.AuditQuery{Limit: 1})
	if page.Entries[0].What != fmt.Sprint(n-1) || page.Entries[0].Seq != n {
		t.Errorf("%+v", page)
	}
	var oldest apiv1.AuditEntry
	for q := (apiv1.AuditQuery{}); ; {
		page := read(t, l, q)
		oldest = page.Entries[0]
		if q.Before = page.Before; q.Before == 0 {
			break
		}
	}
	if int(oldest.Seq) != n-len(list)+1 {
		t.Errorf("the oldest of %d is %d", len(list), oldest.Seq)
	}
	noted(t, l, "u", strings.Repeat("ä", 1000))
	if e := read(t, l, apiv1.AuditQuery{Limit: 1}).Entries[0]; len(e.What) > maxText+4 {
		t.Errorf("a text of %d bytes", len(e.What))
	}
}

func TestLogOnABadDisk(t *testing.T) {
	l, store, _ := newLog()
	noted(t, l, "u", "one")
	store.FailWrites(errors.New("full"))
	if l.Record(t.Context(), apiv1.AuditEntry{What: "lost"}) == nil {
		t.Error("a full disk gave no error")
	}
	store.FailWrites(nil)
	store.LoseNextOutcome(true)
	if l.Record(t.Context(), apiv1.AuditEntry{What: "perhaps"}) == nil {
		t.Error("an unknown outcome gave no error")
	}
	noted(t, l, "u", "two")
	got := read(t, l, apiv1.AuditQuery{}).Entries
	if len(got) != 3 || got[1].What != "perhaps" || got[2].What != "two" || got[2].Seq <= got[1].Seq {
		t.Errorf("%+v", got)
	}
}

func TestLogTogether(t *testing.T) {
	l, _, _ := newLog()
	var w sync.WaitGroup
	for i := range 8 {
		w.Go(func() {
			for range 50 {
				noted(t, l, fmt.Sprint(i), "x")
			}
		})
	}
	w.Wait()
	got := read(t, l, apiv1.AuditQuery{}).Entries
	for i, e := range got {
		if e.Seq != uint64(i)+1 {
			t.Fatalf("entry %d has number %d", i, e.Seq)
		}
	}
	if len(got) != 400 {
		t.Errorf("%d entries", len(got))
	}
}
