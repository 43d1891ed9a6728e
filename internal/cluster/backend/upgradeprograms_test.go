package backend

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/upgrader"
	"github.com/verge-edge/verge/internal/cluster/upgrades"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/wire"
)

// Programs that no upgrade needs go a day after they were put, and after another upgrade has
// begun; what somebody else has put beside them stays.
func TestProgramsThatNoUpgradeNeedsGo(t *testing.T) {
	store := bustest.NewMemStore()
	core := clustertest.NewCore(t, store)
	shelf, err := objects.Open(t.Context(), objects.Options{Store: store, Blobs: bustest.NewMemBlobs(), Site: "edge"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shelf.Close)
	c := &Backend{Core: core, ObjectStore: shelf}
	put := func(name, content string) wire.Program {
		t.Helper()
		sum := sha256.Sum256([]byte(content))
		p := wire.Program{OS: "linux", Arch: "amd64", SHA256: hex.EncodeToString(sum[:]), Size: int64(len(content))}
		if name == "" {
			name = p.Object()
		}
		if _, err := shelf.Put(t.Context(),
			objects.Upload{Namespace: wire.ProgramsNamespace, Name: name, Size: p.Size,
				Body: strings.NewReader(content)}); err != nil {
			t.Fatal(err)
		}
		return p
	}
	there := func() (names []string) {
		t.Helper()
		list, err := shelf.List(t.Context(), wire.ProgramsNamespace)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list {
			names = append(names, o.Name)
		}
		return names
	}
	begin := func(p wire.Program, at time.Time) {
		t.Helper()
		rec := &upgrades.Record{V: 1, ID: wire.NewID(), Request: apiv1.UpgradeRequest{Programs: []wire.Program{p}},
			At: at, State: apiv1.UpgradeDone}
		if err := upgrader.KeepUpgrade(t.Context(), core, rec, nil, nil, at); err != nil {
			t.Fatal(err)
		}
	}
	sweep := func(at time.Time, want ...string) {
		t.Helper()
		if err := c.sweepPrograms(context.Background(), at); err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		if got := there(); !slices.Equal(got, want) {
			t.Fatalf("there are %v, want %v", got, want)
		}
	}
	now := time.Now()
	old, next, never := put("", "old"), put("", "next!"), put("", "never")
	put("notes.txt", "mine")
	day := func(n float64) time.Time { return now.Add(time.Duration(n * float64(24*time.Hour))) }
	sweep(day(0.9), old.Object(), next.Object(), never.Object(), "notes.txt")
	begin(old, now)
	sweep(day(1.1), old.Object(), "notes.txt")
	next = put("", "next!")
	begin(next, day(5))
	v := apiv1.UpgradeView{}
	c.viewSpare(t.Context(), &v)
	if v.Spare != 1 || v.SpareBytes != 3 || v.SpareUntil.Sub(day(6)).Abs() > time.Second {
		t.Errorf("it is seen as %+v", v)
	}
	sweep(day(5.9), old.Object(), next.Object(), "notes.txt") // somebody may want it back
	state.MarkTable.Rows(core.M.DB)[""] = &backup.Mark{V: wire.Version, At: day(6)}
	sweep(day(7), old.Object(), next.Object(), "notes.txt") // what was begun since the backup is not known
	delete(state.MarkTable.Rows(core.M.DB), "")
	sweep(day(7), next.Object(), "notes.txt")
	sweep(day(700), next.Object(), "notes.txt")
	v = apiv1.UpgradeView{}
	if c.viewSpare(t.Context(), &v); v.Spare != 0 || !v.SpareUntil.IsZero() {
		t.Errorf("it is seen as %+v", v)
	}
	all := core.EventRing.After(t.Context(), 0, 0).Events
	if text := all[len(all)-1].What; !strings.Contains(text, old.SHA256[:12]) ||
		!strings.Contains(text, "no upgrade needs it") {
		t.Errorf("people are told %q", text)
	}
}
