package objects_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/objects"
	"github.com/verge-edge/verge/internal/wire"
)

// tier is a store and what is under it.
type tier struct {
	*objects.Store
	store *bustest.MemStore
	blobs *bustest.MemBlobs
}

func open(t *testing.T, o objects.Options) *tier {
	t.Helper()
	x := &tier{store: bustest.NewMemStore(), blobs: bustest.NewMemBlobs()}
	o.Store, o.Blobs = x.store, x.blobs
	var err error
	if x.Store, err = objects.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

func (x *tier) put(t *testing.T, name, content string) apiv1.ObjectView {
	t.Helper()
	v, err := x.Put(t.Context(), upload(name, strings.NewReader(content)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func upload(name string, r io.Reader) objects.Upload {
	return objects.Upload{Namespace: "shop", Name: name, Size: -1, By: "user/dev", Body: r}
}

func (x *tier) get(name string) (apiv1.ObjectView, string, error) {
	v, r, err := x.Get(context.Background(), "shop", name)
	if err != nil {
		return v, "", err
	}
	data, err := io.ReadAll(r)
	return v, string(data), errors.Join(err, r.Close())
}

func (x *tier) blobIDs(t *testing.T) int {
	t.Helper()
	ids, err := x.blobs.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(ids)
}

func code(err error) string {
	var p *wire.Problem
	if errors.As(err, &p) {
		return p.Code
	}
	return fmt.Sprint(err)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestPutGetRemove(t *testing.T) {
	x := open(t, objects.Options{})
	if _, _, err := x.get("a/b.txt"); code(err) != "no-such-object" {
		t.Errorf("before it is put: %v", err)
	}
	v := x.put(t, "a/b.txt", "one")
	if v.Origin != "root" || v.Copy || v.Size != 3 || v.Digest != "sha256:"+digest("one") || v.By != "user/dev" {
		t.Errorf("put as %+v", v)
	}
	// Who has it open reads it to its end, whatever becomes of its name.
	_, open, err := x.Get(t.Context(), "shop", "a/b.txt")
	if err != nil {
		t.Fatal(err)
	}
	x.put(t, "a/b.txt", "two")
	if _, got, err := x.get("a/b.txt"); got != "two" || err != nil {
		t.Errorf("the newest put is %q, %v", got, err)
	}
	if got, err := io.ReadAll(open); string(got) != "one" || err != nil {
		t.Errorf("who read before has %q, %v", got, err)
	}
	if err := open.Close(); err != nil || x.blobIDs(t) != 1 {
		t.Errorf("%d blobs are kept for one object (%v)", x.blobIDs(t), err)
	}
	if _, err := x.Remove(t.Context(), "shop", "a/b.txt"); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Remove(t.Context(), "shop", "a/b.txt"); code(err) != "no-such-object" || x.blobIDs(t) != 0 {
		t.Errorf("after it was removed: %v, %d blobs", err, x.blobIDs(t))
	}
}

// Whatever keeps a put from being done, nothing has changed and nothing is left.
func TestPutsThatFailChangeNothing(t *testing.T) {
	broken := errors.New("the line is gone")
	for name, c := range map[string]struct {
		upload objects.Upload
		spoil  func(x *tier)
		want   string
	}{
		"broken off": {upload: upload("a", io.MultiReader(strings.NewReader("tw"), iotest.ErrReader(broken))),
			want: "the line is gone"},
		"shorter than said": {upload: objects.Upload{Namespace: "shop", Name: "a", Size: 5,
			Body: strings.NewReader("two")}, want: "other-content"},
		"other digest": {upload: objects.Upload{Namespace: "shop", Name: "a", Size: 3, Digest: digest("one"),
			Body: strings.NewReader("two")}, want: "other-content"},
		"said to be too large": {
			upload: objects.Upload{Namespace: "shop", Name: "a", Size: wire.MaxObjectBytes + 1,
				Body: iotest.ErrReader(errors.New("it was read"))}, want: "object-too-large",
		},
		"disk full": {upload: upload("a", strings.NewReader("two")),
			spoil: func(x *tier) { x.blobs.FailWrites(bus.ErrFull) }, want: "disk-full"},
		"store refuses": {upload: upload("a", strings.NewReader("two")),
			spoil: func(x *tier) { x.store.FailWrites(errors.New("disk")) }, want: "not-stored"},
		"bad name": {upload: upload("../a", strings.NewReader("two")), want: "bad-name"},
	} {
		t.Run(name, func(t *testing.T) {
			x := open(t, objects.Options{})
			x.put(t, "a", "one")
			if c.spoil != nil {
				c.spoil(x)
			}
			if _, err := x.Put(t.Context(), c.upload); err == nil || !strings.Contains(code(err), c.want) {
				t.Errorf("got %v", err)
			}
			if _, got, err := x.get("a"); got != "one" || err != nil || x.blobIDs(t) != 1 {
				t.Errorf("it is %q then, %v, in %d blobs", got, err, x.blobIDs(t))
			}
		})
	}
}

// One of whom it is not known whether it was stored keeps its bytes until the next
// start, which knows.
func TestUnknownOutcome(t *testing.T) {
	for _, written := range []bool{true, false} {
		x := open(t, objects.Options{})
		x.put(t, "a", "one")
		x.store.LoseNextOutcome(written)
		if _, err := x.Put(t.Context(), upload("a", strings.NewReader("two"))); code(err) != "outcome-unknown" ||
			x.blobIDs(t) != 2 {
			t.Fatalf("got %v with %d blobs", err, x.blobIDs(t))
		}
		again, err := objects.Open(t.Context(), objects.Options{Store: x.store, Blobs: x.blobs})
		if err != nil {
			t.Fatal(err)
		}
		x.Store = again
		want := map[bool]string{true: "two", false: "one"}[written]
		if _, got, err := x.get("a"); got != want || err != nil || x.blobIDs(t) != 1 {
			t.Errorf("written %v: it is %q, %v, in %d blobs", written, got, err, x.blobIDs(t))
		}
	}
}

func TestConcurrentPutsOfOneName(t *testing.T) {
	x := open(t, objects.Options{})
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			content := strings.Repeat(string(rune('a'+i)), 1000)
			if _, err := x.Put(t.Context(), upload("a", strings.NewReader(content))); err != nil {
				t.Error(err)
			}
			if v, got, err := x.get("a"); err != nil || len(got) != 1000 || v.Digest != "sha256:"+digest(got) {
				t.Errorf("%d bytes of %s, %v", len(got), v.Digest, err)
			}
		})
	}
	all.Wait()
	if n := x.blobIDs(t); n != 1 {
		t.Errorf("%d blobs are kept for one object", n)
	}
}

func TestLostContentIsSaid(t *testing.T) {
	x := open(t, objects.Options{})
	x.put(t, "a", "one")
	ids, _ := x.blobs.List(t.Context())
	x.blobs.Lose(ids[0])
	if _, _, err := x.get("a"); code(err) != "object-lost" {
		t.Errorf("got %v", err)
	}
	x.put(t, "a", "one")
	if _, got, err := x.get("a"); got != "one" || err != nil {
		t.Errorf("put again: %q, %v", got, err)
	}
}

// above is a root as its cluster sees it.
type above struct {
	*tier
	mu sync.Mutex
	// Guarded by mu.
	err   error
	lie   bool // about the digest
	asked int
	block chan struct{}
}

func (a *above) Get(ctx context.Context, namespace, name, have string) (objects.Got, error) {
	a.mu.Lock()
	a.asked++
	err, lie, block := a.err, a.lie, a.block
	a.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return objects.Got{}, ctx.Err()
		}
	}
	if err != nil {
		return objects.Got{}, err
	}
	v, r, err := a.Store.Get(ctx, namespace, name)
	if err != nil {
		return objects.Got{}, err
	}
	if v.Digest == "sha256:"+have {
		return objects.Got{Same: true, View: v}, r.Close()
	}
	if lie {
		v.Digest = "sha256:" + digest("something else")
	}
	return objects.Got{View: v, Body: r}, nil
}

func (a *above) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func away() error { return errors.New("connection refused") }

func TestClusterCopiesFromItsRoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := &above{tier: open(t, objects.Options{})}
		edge := open(t, objects.Options{Site: "edge", Above: root})
		check := func(what, want string, stale bool) {
			t.Helper()
			v, got, err := edge.get("a")
			if got != want || err != nil || v.Stale != stale || v.Origin != "root" || !v.Copy {
				t.Errorf("%s: %q, %v, %+v", what, got, err, v)
			}
		}
		if _, _, err := edge.get("a"); code(err) != "no-such-object" {
			t.Errorf("nobody has it: %v", err)
		}
		root.set(func() { root.err = away() })
		if _, _, err := edge.get("a"); code(err) != "root-away" {
			t.Errorf("nobody can be asked: %v", err)
		}
		root.set(func() { root.err = nil })
		root.put(t, "a", "one")
		check("copied", "one", false)
		before := root.asked
		check("again at once", "one", false)
		if root.asked != before {
			t.Error("the root was asked for what it said a moment ago")
		}
		root.put(t, "a", "two")
		time.Sleep(3 * time.Second)
		check("put anew at the root", "two", false)
		if edge.blobIDs(t) != 1 {
			t.Errorf("%d blobs for one copy", edge.blobIDs(t))
		}
		time.Sleep(3 * time.Second)
		root.set(func() { root.err = away() })
		check("the root is away", "two", true)
		// What is put at the cluster is its own, and goes before the copy.
		v := edge.put(t, "a", "site")
		if v.Origin != "edge" || v.Copy {
			t.Errorf("put at the site as %+v", v)
		}
		if v, got, err := edge.get("a"); got != "site" || err != nil || v.Origin != "edge" {
			t.Errorf("what was put at the site is %q, %v, %+v", got, err, v)
		}
		if list, err := edge.List(t.Context(), "shop"); err != nil || len(list) != 2 || list[0].Copy || !list[1].Copy {
			t.Errorf("listed as %+v, %v", list, err)
		}
		root.set(func() { root.err = nil })
		if _, err := edge.Remove(t.Context(), "shop", "a"); err != nil {
			t.Fatal(err)
		}
		check("its own is removed", "two", false)
		if _, err := root.Remove(t.Context(), "shop", "a"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if _, _, err := edge.get("a"); code(err) != "no-such-object" || edge.blobIDs(t) != 0 {
			t.Errorf("removed at the root: %v, %d blobs", err, edge.blobIDs(t))
		}
	})
}

func TestCopiesAreChecked(t *testing.T) {
	root := &above{tier: open(t, objects.Options{}), lie: true}
	edge := open(t, objects.Options{Site: "edge", Above: root})
	root.put(t, "a", "one")
	if _, _, err := edge.get("a"); code(err) != "other-content" || edge.blobIDs(t) != 0 {
		t.Errorf("content that is not what was said: %v, %d blobs", err, edge.blobIDs(t))
	}
	root.set(func() { root.lie = false })
	if _, got, err := edge.get("a"); got != "one" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	// A copy that the disk has lost is fetched again.
	ids, _ := edge.blobs.List(t.Context())
	edge.blobs.Lose(ids[0])
	if _, got, err := edge.get("a"); got != "one" || err != nil {
		t.Errorf("lost: %q, %v", got, err)
	}
}

func TestCopiesAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := &above{tier: open(t, objects.Options{})}
		edge := open(t, objects.Options{Site: "edge", Above: root, CopyBytes: 100})
		for _, name := range []string{"a", "b", "c"} {
			root.put(t, name, strings.Repeat(name, 40))
		}
		root.put(t, "large", strings.Repeat("x", 101))
		edge.put(t, "own", strings.Repeat("o", 500))
		for _, name := range []string{"a", "b", "a", "c"} {
			if _, _, err := edge.get(name); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		list, err := edge.List(t.Context(), "")
		var names []string
		for _, v := range list {
			names = append(names, v.Name)
		}
		if got := strings.Join(names, " "); got != "a c own" || err != nil || edge.blobIDs(t) != 3 {
			t.Errorf("%s are kept in %d blobs, %v", got, edge.blobIDs(t), err)
		}
		if _, _, err := edge.get("large"); code(err) != "object-too-large" {
			t.Errorf("one that never fits: %v", err)
		}
	})
}

// Many who want the same cost one question; one who leaves ends it for nobody else.
func TestOneQuestionForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := &above{tier: open(t, objects.Options{}), block: make(chan struct{})}
		edge := open(t, objects.Options{Site: "edge", Above: root})
		root.put(t, "a", "one")
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, _, err := edge.Get(ctx, "shop", "a"); !errors.Is(err, context.Canceled) {
				t.Errorf("who left got %v", err)
			}
		})
		synctest.Wait()
		for range 10 {
			all.Go(func() {
				if _, got, err := edge.get("a"); got != "one" || err != nil {
					t.Errorf("%q, %v", got, err)
				}
			})
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		close(root.block)
		all.Wait()
		if root.asked != 1 {
			t.Errorf("asked %d times", root.asked)
		}
	})
}

func TestCloseEndsFetches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := &above{tier: open(t, objects.Options{}), block: make(chan struct{})}
		edge := open(t, objects.Options{Site: "edge", Above: root})
		got := make(chan error)
		go func() {
			_, _, err := edge.get("a")
			got <- err
		}()
		synctest.Wait()
		go edge.Close()
		if err := <-got; err == nil {
			t.Error("no error")
		}
		synctest.Wait()
		if _, _, err := edge.get("a"); !errors.Is(err, bus.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}

func TestNamesOfObjects(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "functions/hello.wasm": true, "A-b_c=1.tar.gz": true, strings.Repeat("x", 200): true,
		"": false, "/a": false, "a/": false, "a//b": false, ".": false, "a/.hidden": false, "a..b": false,
		"../a": false, "a.": false,
		"a b": false, "ä": false, "a\x00": false, "a?b": false, "a%2fb": false, "a\\b": false, "a*": false, "a>": false,
		strings.Repeat("x", 201): false,
	} {
		if err := wire.CheckObjectName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
		if ok { // what is allowed is a key of a store
			if _, err := bustest.NewMemStore().Put(t.Context(), "objectcopy/"+strings.Repeat("n", 63)+"/"+name,
				nil); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
}

// TestQuota: what a namespace may have is looked at before an upload, while it comes, and
// when it is there; nothing of one that is refused stays.
func TestQuota(t *testing.T) {
	quota := int64(10)
	x := open(t, objects.Options{Quota: func(ns string) int64 {
		if ns != "shop" {
			return 0
		}
		return quota
	}})
	x.put(t, "a", "1234")
	read := 0
	counted := iotest.OneByteReader(readerFunc(func(p []byte) (int, error) {
		read += len(p)
		return len(p), nil
	}))
	for name, u := range map[string]objects.Upload{
		"said to be too large": {Size: 7, Body: counted},
		"too large":            {Size: -1, Body: strings.NewReader("1234567")},
		"endless":              {Size: -1, Body: readerFunc(func(p []byte) (int, error) { return len(p), nil })},
	} {
		u.Namespace, u.Name = "shop", "b"
		_, err := x.Put(t.Context(), u)
		var p *wire.Problem
		if !errors.As(err, &p) || p.Code != "over-quota" || !strings.Contains(p.Detail,
			"may have objects of 10, its others have 4") || !strings.Contains(p.Remedy, "verge namespace quota shop") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if read != 0 {
		t.Errorf("%d bytes were read of an upload that was refused", read)
	}
	if n := x.blobIDs(t); n != 1 {
		t.Errorf("%d blobs, want that of a alone", n)
	}
	x.put(t, "b", "123456") // as much as there is room for
	x.put(t, "b", "123")
	// Other namespaces are no matter.
	u := upload("b", strings.NewReader("12345678901234567890"))
	u.Namespace = "bank"
	if _, err := x.Put(t.Context(), u); err != nil {
		t.Error(err)
	}
	// Who is over it may come back, and have no more.
	quota = 2
	if _, err := x.Put(t.Context(), upload("a", strings.NewReader("12345"))); code(err) != "over-quota" {
		t.Errorf("more than before: %v", err)
	}
	if _, err := x.Put(t.Context(), upload("c", strings.NewReader("1"))); code(err) != "over-quota" {
		t.Errorf("another one: %v", err)
	}
	x.put(t, "a", "12")
	if used, err := x.Used(t.Context()); err != nil || used["shop"] != 5 || used["bank"] != 20 {
		t.Errorf("used %v, %v", used, err)
	}
}

// TestQuotaCountsWhatComes: many uploads at a time are refused when all together are too
// much, and not when each of them is whole.
func TestQuotaCountsWhatComes(t *testing.T) {
	x := open(t, objects.Options{Quota: func(string) int64 { return 10 }})
	counted, broken, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	parts := 0
	go func() {
		_, err := x.Put(t.Context(), upload("slow", readerFunc(func(p []byte) (int, error) {
			if parts++; parts == 1 {
				return copy(p, "123456"), nil
			}
			close(counted) // who asks for more has counted what it got
			<-broken
			return 0, errors.New("broken off")
		})))
		done <- err
	}()
	<-counted
	if _, err := x.Put(t.Context(), upload("b", strings.NewReader("12345"))); code(err) != "over-quota" {
		t.Errorf("beside six of ten bytes that come: %v", err)
	} else if p := (*wire.Problem)(nil); !errors.As(err, &p) || !p.MayPass() {
		t.Errorf("it is refused for good, and not until the other upload has ended: %+v", p)
	}
	x.put(t, "b", "1234")
	close(broken)
	if err := <-done; err == nil {
		t.Error("an upload that broke off was taken")
	}
	if n := x.blobIDs(t); n != 1 {
		t.Errorf("%d blobs, want that of b alone", n)
	}
	x.put(t, "c", "123456") // what broke off counts no more
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A cluster's store tells what is on it: own objects and copies, after each change and
// after a restart, and no name.
func TestMarksOfWhatIsThere(t *testing.T) {
	root := open(t, objects.Options{})
	root.put(t, "models/cats", "miaow")
	edge := open(t, objects.Options{Site: "edge", Above: &above{tier: root}})
	check := func(when string, want ...string) {
		t.Helper()
		packed := edge.Marks()
		if len(packed) != len(want)*len(wire.ObjectMark{}) {
			t.Errorf("%s: %d bytes, want those of %d objects", when, len(packed), len(want))
		}
		for _, name := range want {
			if !wire.HasMark(packed, wire.MarkOf("shop", name)) {
				t.Errorf("%s: %s is missing", when, name)
			}
		}
	}
	check("nothing is there")
	edge.put(t, "own", "1")
	check("one was put", "own")
	if _, _, err := edge.get("models/cats"); err != nil {
		t.Fatal(err)
	}
	check("one was copied", "own", "models/cats")
	edge.put(t, "models/cats", "woof")
	if _, err := edge.Put(t.Context(),
		objects.Upload{Namespace: wire.ProgramsNamespace, Name: "verge", Size: -1,
			Body: strings.NewReader("1")}); err != nil {
		t.Fatal(err)
	}
	check("the copy has an own one before it, and a program is there", "own", "models/cats")
	again, err := objects.Open(t.Context(),
		objects.Options{Site: "edge", Store: edge.store, Blobs: edge.blobs, Above: &above{tier: root}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Close)
	edge.Store = again
	check("it was opened again", "own", "models/cats")
	for _, name := range []string{"own", "models/cats"} {
		if _, err := edge.Remove(t.Context(), "shop", name); err != nil {
			t.Fatal(err)
		}
	}
	check("own ones were removed", "models/cats")
	if _, err := edge.Remove(t.Context(), "shop", "models/cats"); err != nil {
		t.Fatal(err)
	}
	check("the copy was removed")
}
