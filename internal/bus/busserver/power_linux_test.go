package busserver_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/verge-edge/verge/internal/atomicfile/powertest"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/logstore"
)

// stored is what a store has acknowledged, or may have: values by key as their digests,
// and objects.
type stored struct {
	Values map[string]string
	Blobs  []bus.Blob
}

// said is a line of a process that uses a store.
type said struct {
	Open  bool      // the store is open, and has what it should
	Try   string    // the key that is written next
	Key   string    // it is acknowledged
	Value string    // with this
	Blob  *bus.Blob // is acknowledged
}

// largeValue is what values and objects are made of.
func largeValue() []byte {
	out, random := make([]byte, 700<<10), rand.New(rand.NewPCG(1, 2))
	for n := range out {
		out[n] = byte(random.Uint32())
	}
	return out
}

// TestPowerUser is the process that TestNothingAcknowledgedIsLostWithThePower starts: it
// opens a store, looks whether it has what it should, and writes until it is killed.
func TestPowerUser(t *testing.T) {
	dir := os.Getenv("BUS_TEST_POWER")
	if dir == "" {
		t.Skip("it is no test of its own")
	}
	var want stored
	if err := json.Unmarshal([]byte(os.Getenv("BUS_TEST_STORED")), &want); err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(os.Getenv("BUS_TEST_SEED"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	out, large := json.NewEncoder(os.Stdout), largeValue()
	say := func(s said) {
		if err := out.Encode(s); err != nil {
			t.Fatal(err)
		}
	}
	r := startRoot(t, newCA(t), dir, "127.0.0.1:0")
	s := r.Store()
	s.(*logstore.Store).SetSlack(3 << 20)
	for key, digest := range want.Values {
		if e, err := s.Get(t.Context(), key); err != nil || digestOf(e.Value) != digest {
			t.Fatalf("of %s %d bytes are there, %v: not what was acknowledged", key, len(e.Value), err)
		}
	}
	for _, b := range want.Blobs {
		o, err := r.Blobs().Open(t.Context(), b)
		if err != nil {
			t.Fatalf("object %s: %v", b.ID, err)
		}
		if got, err := io.ReadAll(o); err != nil || !bytes.Equal(got, large) {
			t.Fatalf("object %s: %d bytes, %v: not what was acknowledged", b.ID, len(got), err)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
	}
	say(said{Open: true})
	random := rand.New(rand.NewPCG(seed, 3))
	for n := 0; ; n++ {
		key, value := fmt.Sprintf("k%d", random.IntN(8)), large[random.IntN(len(large)):]
		say(said{Try: key})
		if _, err := s.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
		say(said{Key: key, Value: digestOf(value)})
		if n%4 == 0 {
			b, err := r.Blobs().Write(t.Context(), bytes.NewReader(large), 1<<30)
			if err != nil {
				t.Fatal(err)
			}
			say(said{Blob: &b})
		}
	}
}

func digestOf(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// The power goes at any fsync of a store, of its first start too, on a file system that
// loses whatever was not synced: names of files as much as their content. The store opens
// again and has all that was acknowledged, objects included. Commits are large, so that
// the log begins new files and cuts off old ones.
func TestNothingAcknowledgedIsLostWithThePower(t *testing.T) {
	t.Parallel()
	mount := t.TempDir()
	disk := powertest.New(t, mount)
	have := stored{Values: map[string]string{}}
	random := rand.New(rand.NewPCG(16, 1))
	for cut := range 32 {
		after := 1 + cut // a start has some fifteen
		if cut >= 16 {
			after = 20 + random.IntN(80)
		}
		was := maps.Clone(have.Values)
		if err := have.use(t, disk, filepath.Join(mount, "data", "root"), after); err != nil {
			t.Fatalf("cut %d: %v\nit was to have %q and %d objects", cut, err, was, len(have.Blobs))
		}
		disk.Return(t)
	}
	if len(have.Values) < 4 || len(have.Blobs) < 4 {
		t.Errorf("%d values and %d objects were written: nothing was tested", len(have.Values), len(have.Blobs))
	}
}

// use has a process use the store until the power goes at the given fsync.
func (s *stored) use(t *testing.T, disk *powertest.Disk, dir string, after int) error {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPowerUser$", "-test.v")
	cmd.Env = append(os.Environ(), "BUS_TEST_POWER="+dir, "BUS_TEST_STORED="+string(text), fmt.Sprint("BUS_TEST_SEED=", after))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var mu sync.Mutex
	gone := false
	disk.OnSync(func() {
		mu.Lock()
		defer mu.Unlock()
		if after--; after == 0 {
			disk.Cut()
			gone = true
			_ = cmd.Process.Kill() // it may have ended
		}
	})
	defer disk.OnSync(nil)
	trying, other := "", ""
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var x said
		if json.Unmarshal(lines.Bytes(), &x) != nil {
			other += lines.Text() + "\n"
			continue
		}
		switch {
		case x.Try != "":
			trying = x.Try
		case x.Key != "":
			s.Values[x.Key], trying = x.Value, ""
		case x.Blob != nil:
			s.Blobs = append(s.Blobs, *x.Blob)
		}
	}
	delete(s.Values, trying) // it may have been stored or not
	err = cmd.Wait()
	mu.Lock()
	defer mu.Unlock()
	if !gone {
		return fmt.Errorf("the process that uses the store has ended: %w\n%s", err, other)
	}
	return nil
}
