package bustest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/verge-edge/verge/internal/bus"
)

type makeBlobs func(t *testing.T) (bus.Blobs, func(t *testing.T) bus.Blobs)

// runBlobs runs all on one store: a server for each would cost more than the tests.
func runBlobs(t *testing.T, blobs makeBlobs) {
	b, reopened := blobs(t)
	for _, c := range []struct {
		name string
		test func(t *testing.T, b bus.Blobs)
	}{
		{"Nothing", testNoBlobs}, {"Sizes", testBlobSizes}, {"Places", testBlobPlaces}, {"Broken", testBlobBroken},
		{"Limit", testBlobLimit}, {"RemovedWhileRead", testBlobRemoved}, {"AtOnce", testBlobsAtOnce},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, b) })
	}
	if reopened == nil {
		return
	}
	t.Run("Reopen", func(t *testing.T) {
		kept := store(t, b, noise(1_000_000))
		b := reopened(t)
		check(t, b, kept, noise(1_000_000))
		remove(t, b, kept)
		if ids := ids(t, b); len(ids) > 0 {
			t.Errorf("%d blobs are left", len(ids))
		}
	})
}

// noise is n bytes that are the same for each n.
func noise(n int) []byte {
	out := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}).Read(out)
	return out
}

func store(t *testing.T, b bus.Blobs, data []byte) bus.Blob {
	t.Helper()
	v, err := b.Write(t.Context(), bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	if v.ID == "" || v.Size != int64(len(data)) || v.Digest != hex.EncodeToString(sum[:]) {
		t.Fatalf("%d bytes were stored as %+v", len(data), v)
	}
	return v
}

func check(t *testing.T, b bus.Blobs, v bus.Blob, want []byte) {
	t.Helper()
	r, err := b.Open(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	if err := iotest.TestReader(onlyRead{r}, want); len(want) < 10_000 && err != nil {
		t.Error(err)
	}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if cerr := r.Close(); err != nil || cerr != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes come back instead of %d (%v, %v)", len(got), len(want), err, cerr)
	}
}

type onlyRead struct{ io.Reader }

func remove(t *testing.T, b bus.Blobs, v bus.Blob) {
	t.Helper()
	if err := b.Remove(t.Context(), v.ID); err != nil {
		t.Fatal(err)
	}
}

func ids(t *testing.T, b bus.Blobs) []string {
	t.Helper()
	out, err := b.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func testNoBlobs(t *testing.T, b bus.Blobs) {
	if _, err := b.Open(t.Context(), bus.Blob{ID: "0123", Size: 4}); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("opening what is not there: %v", err)
	}
	if err := b.Remove(t.Context(), "0123"); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
	if len(ids(t, b)) != 0 {
		t.Error("an empty store has something")
	}
}

func testBlobSizes(t *testing.T, b bus.Blobs) {
	for _, n := range []int{0, 1, 256<<10 - 1, 256 << 10, 256<<10 + 1, 1 << 20} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			v := store(t, b, noise(n))
			check(t, b, v, noise(n))
			if got := ids(t, b); !slices.Equal(got, []string{v.ID}) {
				t.Errorf("%v are there, %s was stored", got, v.ID)
			}
			remove(t, b, v)
			remove(t, b, v)
			if _, err := b.Open(t.Context(), v); !errors.Is(err, bus.ErrNotFound) || len(ids(t, b)) > 0 {
				t.Errorf("it is there after it was removed: %v", err)
			}
		})
	}
}

func testBlobPlaces(t *testing.T, b bus.Blobs) {
	want := noise(700_000)
	v := store(t, b, want)
	defer remove(t, b, v)
	r, err := b.Open(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		from := random.IntN(len(want))
		got := make([]byte, random.IntN(len(want)-from)+1)
		if _, err := r.Seek(int64(from), io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, want[from:from+len(got)]) {
			t.Fatalf("%d bytes from %d on are others (%v)", len(got), from, err)
		}
	}
	if at, err := r.Seek(10, io.SeekEnd); err != nil || at != v.Size+10 {
		t.Errorf("a place behind the end: %d, %v", at, err)
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("behind the end are %d bytes, %v", n, err)
	}
	if _, err := r.Seek(-1, io.SeekStart); err == nil {
		t.Error("there is a place before the first byte")
	}
}

func testBlobBroken(t *testing.T, b bus.Blobs) {
	broken := errors.New("the line is gone")
	_, err := b.Write(t.Context(), io.MultiReader(bytes.NewReader(noise(600_000)), iotest.ErrReader(broken)), 1<<20)
	if !errors.Is(err, broken) {
		t.Errorf("a broken upload: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = b.Write(ctx, io.MultiReader(bytes.NewReader(noise(600_000)), readerFunc(func([]byte) (int, error) { cancel(); return 0, nil })), 1<<20)
	if !errors.Is(err, context.Canceled) && !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("an upload whose caller is gone: %v", err)
	}
	if left := ids(t, b); len(left) > 0 {
		t.Errorf("%d are left of broken uploads", len(left))
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) {
	n, err := f(p)
	if err == nil && n == 0 {
		err = context.Canceled
	}
	return n, err
}

func testBlobLimit(t *testing.T, b bus.Blobs) {
	for _, size := range []int{1, 300_000} {
		if _, err := b.Write(t.Context(), bytes.NewReader(noise(size)), int64(size)-1); !errors.Is(err, bus.ErrTooLarge) {
			t.Errorf("%d bytes where one less is allowed: %v", size, err)
		}
	}
	if left := ids(t, b); len(left) > 0 {
		t.Errorf("%d are left of what was too large", len(left))
	}
}

func testBlobRemoved(t *testing.T, b bus.Blobs) {
	want := noise(800_000)
	v := store(t, b, want)
	r, err := b.Open(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	remove(t, b, v)
	if _, err := b.Open(t.Context(), v); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("what was removed can be opened: %v", err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
		t.Errorf("who had it open gets %d bytes, %v", len(got), err)
	}
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Error(err)
	}
	if left := ids(t, b); len(left) > 0 {
		t.Error("it is there when nobody reads it any more")
	}
}

func testBlobsAtOnce(t *testing.T, b bus.Blobs) {
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			want := noise(100_000 * (i + 1))
			v, err := b.Write(t.Context(), bytes.NewReader(want), 1<<20)
			if err != nil {
				t.Error(err)
				return
			}
			r, err := b.Open(t.Context(), v)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes come back instead of %d (%v)", len(got), len(want), err)
			}
			if err := errors.Join(r.Close(), b.Remove(t.Context(), v.ID)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if left := ids(t, b); len(left) > 0 {
		t.Errorf("%d are left", len(left))
	}
}
