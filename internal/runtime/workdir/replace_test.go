package workdir

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Whoever reads while a secret file is replaced finds one of the values, whole; also
// where it is larger than what there was room for, and where nothing can be mounted.
func TestReplace(t *testing.T) {
	for _, mounting := range []bool{true, false} {
		t.Run(fmt.Sprintf("mounting %v", mounting), func(t *testing.T) {
			if mounting {
				mustMount(t)
			}
			s := newScene(t)
			s.place.MayMount = mounting
			value := func(n int) []byte { return bytes.Repeat(fmt.Appendf(nil, "value %3d\n", n), 10+60*n) }
			files := []File{{Path: "app.ini", Mode: 0o600}, {Path: "tls/key", Content: value(0), Mode: 0o400, Secret: true}}
			if err := s.prepare(files, nil); err != nil {
				t.Fatal(err)
			}
			held, err := os.Open(s.path("work/tls/key"))
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			var readers sync.WaitGroup
			done := make(chan struct{})
			for range 2 {
				readers.Go(func() {
					for {
						select {
						case <-done:
							return
						default:
						}
						b, err := os.ReadFile(s.path("work/tls/key"))
						var n int
						if err == nil {
							_, err = fmt.Sscanf(string(b), "value %d", &n)
						}
						if err != nil || !bytes.Equal(b, value(n)) {
							t.Errorf("a reader found %d bytes, %v", len(b), err)
							return
						}
					}
				})
			}
			for n := 1; n <= 100; n++ {
				next := files[1]
				next.Content = value(n)
				if err := s.place.Replace(next, 1); err != nil {
					t.Fatal(err)
				}
				s.is("work/tls/key", string(value(n)), 0o400)
			}
			close(done)
			readers.Wait()
			if b, err := os.ReadFile("/dev/fd/" + fmt.Sprint(held.Fd())); err != nil || len(b) != 0 && !bytes.Equal(b, value(0)) {
				t.Errorf("who has it open reads %d bytes, %v", len(b), err)
			}
			// What the instance has put in its place is none of its business.
			if err := os.Remove(s.path("work/tls/key")); err != nil {
				t.Fatal(err)
			}
			next := files[1]
			next.Content = []byte("again")
			if err := s.place.Replace(next, 1); err != nil {
				t.Fatal(err)
			}
			s.is("work/tls/key", "again", 0o400)
			if err := os.RemoveAll(s.path("work/tls")); err != nil {
				t.Fatal(err)
			}
			s.symlink("../outside", "work/tls")
			if err := s.place.Replace(next, 1); err == nil {
				t.Error("written through a link that leads out")
			}
			if err := os.Remove(filepath.Join(s.place.Work, "tls")); err != nil {
				t.Fatal(err)
			}
		})
	}
}
