package container

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
)

// What nothing has needed for long goes, and on a full disk as much as it takes; what is
// needed stays, and what was loaded by hand for as long as there is anything else.
func TestCollectImages(t *testing.T) {
	c := containertest.NeedSmall(t, 96<<20)
	load(t, c, testImage, containertest.Config{})
	d := driver(t, c)
	h := newHub(t)
	names := map[string]string{}
	for _, what := range []string{"old", "used", "asleep", "new", "newer"} {
		name, _ := h.push(t, "shop/"+what+":1", containertest.Config{}, 2<<20)
		names[what] = name
		if fetched(t, d, specOf(t, name), what, "") != nil {
			return
		}
	}
	lastUsed := func(what string, days int) {
		t.Helper()
		at := time.Now().AddDate(0, 0, -days).UTC().Format(time.RFC3339)
		if out, err := c.Ctr("images", "label", names[what], "verge.used="+at); err != nil {
			t.Fatal(out, err)
		}
	}
	for what, days := range map[string]int{"old": 9, "used": 9, "asleep": 9, "new": 2, "newer": 1} {
		lastUsed(what, days)
	}
	task, err := d.Start(t.Context(), specOf(t, names["used"], "sleep", "1000"))
	if err != nil {
		t.Fatal(err)
	}
	needed := map[string]bool{names["asleep"]: true}
	collect := func(what string, age time.Duration, high int, want ...string) {
		t.Helper()
		gone, err := d.Collect(t.Context(), needed, age, high)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, g := range gone {
			if g.Size < 2<<20 && g.Name != "docker.io/"+testImage && g.Name != testImage || g.Why == "" {
				t.Errorf("%s: %+v", what, g)
			}
			got = append(got, strings.TrimSuffix(strings.TrimPrefix(g.Name, h.host+"/shop/"), ":1"))
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %v went, want %v", what, got, want)
		}
	}
	const week = 7 * 24 * time.Hour
	collect("nothing is looked at", 0, 0)
	collect("by age", week, 0, "old")
	collect("again", week, 0)
	full := func() int {
		t.Helper()
		cl, release, err := d.conn.Use(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		n, err := imagestore.UsedPercent(d.FilesOf(t.Context(), cl))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	collect("there is room", week, full())
	collect("a little over", week, full()-1, "new")
	collect("there is room again", week, full())
	loaded, err := imagestore.FullName(testImage)
	if err != nil {
		t.Fatal(err)
	}
	collect("far over", week, 1, "newer", strings.TrimSuffix(loaded, ":1"))
	for what, there := range map[string]bool{"used": true, "asleep": true, "new": false} {
		s := specOf(t, names[what])
		s.Container.Pull = runtime.PullNever
		if err := d.Fetch(t.Context(), s, func(string) {}); (err == nil) != there {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Its use was noted, so that it stays for a week when its container is gone.
	end(t, task)
	collect("what was in use", week, 0)
	lastUsed("used", 8)
	collect("and is not any more", week, 0, "used")
	if err := fetched(t, d, specOf(t, names["old"]), "what went comes again", ""); errors.Is(err, runtime.ErrAway) {
		t.Error(err)
	}
	empty(t, c)
}

// What an interrupted pull has fetched goes where room is needed, unless somebody goes on
// with it, or it is another engine's.
func TestInterruptedPullsMakeRoom(t *testing.T) {
	c := containertest.NeedSmall(t, 64<<20)
	d, other := driver(t, c), driver(t, c)
	h := newHub(t)
	interrupted := func(d *Driver, repo string) string {
		t.Helper()
		name, size := h.push(t, repo, containertest.Config{}, 4<<20)
		h.now(func(w http.ResponseWriter, r *http.Request, plain http.Handler) bool {
			if !isBlob(r) {
				return false
			}
			layer := whole(r, plain)
			if int64(len(layer)) < size {
				return false
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(layer)))
			_, _ = w.Write(layer[:size/2])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		})
		_ = fetched(t, d, specOf(t, name), repo, "ended early")
		h.well()
		return name
	}
	mine, theirs, pulled := interrupted(d, "shop/mine:1"), interrupted(other, "shop/theirs:1"), interrupted(d, "shop/pulled:1")
	leave, err := d.Alone(t.Context(), pulled, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	halves := func() int {
		t.Helper()
		out, err := c.Ctr("content", "active")
		if err != nil {
			t.Fatal(out, err)
		}
		return strings.Count(out, "layer-")
	}
	collect := func(what string, high, left int, want ...string) {
		t.Helper()
		gone, err := d.Collect(t.Context(), nil, 0, high)
		var got []string
		for _, g := range gone {
			if g.Size < 2<<20 || g.Size > 4<<20 || g.Why == "" {
				t.Errorf("%s: %+v", what, g)
			}
			got = append(got, g.Name)
		}
		if err != nil || !slices.Equal(got, want) || halves() != left {
			t.Errorf("%s: %q went, %d are left, want %q and %d; %v", what, got, halves(), want, left, err)
		}
	}
	collect("there is room", 99, 3)
	collect("there is not", 1, 2, mine)
	leave()
	collect("nobody goes on", 1, 1, pulled)
	for _, name := range []string{mine, theirs, pulled} {
		_ = fetched(t, other, specOf(t, name), name, "")
	}
	empty(t, c)
}
