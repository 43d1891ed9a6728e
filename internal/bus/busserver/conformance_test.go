package busserver_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/busserver"
	"github.com/verge-edge/verge/internal/bus/bustest"
)

func TestNATS(t *testing.T) {
	t.Parallel()
	a := newCA(t)
	bustest.Run(t, bustest.Factory{
		Store: func(*testing.T) bustest.StoreUnderTest {
			dir := t.TempDir()
			return &natsUnderTest{ca: a, dir: dir, r: startRoot(t, a, dir, "127.0.0.1:0")}
		},
		Blobs: func(t *testing.T) (bus.Blobs, func(*testing.T) bus.Blobs) {
			dir := t.TempDir()
			r := startRoot(t, a, dir, "127.0.0.1:0")
			return r.Blobs(), func(t *testing.T) bus.Blobs {
				r.Close()
				r = startRoot(t, a, dir, "127.0.0.1:0")
				return r.Blobs()
			}
		},
		Conns: func(t *testing.T, identities ...bus.Permissions) []bus.Conn {
			c := startCluster(t, a, "edge", t.TempDir(), nil)
			var conns []bus.Conn
			for i, allow := range identities {
				key := newKey(t)
				name := fmt.Sprintf("n%d", i)
				token, err := c.IssueFor(name, key, allow)
				if err != nil {
					t.Fatal(err)
				}
				conn := dialWith(t, a, c, name, token, key)
				waitUp(t, conn, true)
				conns = append(conns, conn)
			}
			return conns
		},
	})
}

// natsUnderTest is the store of a root server.
type natsUnderTest struct {
	ca  *ca
	dir string
	r   *busserver.RootServer
}

func (u *natsUnderTest) Store() bus.Store { return u.r.Store() }

func (u *natsUnderTest) Reopen(t *testing.T) bus.Store {
	u.r.Close()
	u.r = startRoot(t, u.ca, u.dir, "127.0.0.1:0")
	return u.r.Store()
}

func (u *natsUnderTest) Copy(t *testing.T) func(*testing.T) bus.Store {
	u.r.Close()
	backup := t.TempDir()
	if err := os.CopyFS(backup, os.DirFS(u.dir)); err != nil {
		t.Fatal(err)
	}
	u.Reopen(t)
	return func(t *testing.T) bus.Store {
		u.r.Close()
		u.dir = backup
		return u.Reopen(t)
	}
}
