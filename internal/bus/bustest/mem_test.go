package bustest_test

import (
	"fmt"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
)

func TestMem(t *testing.T) {
	t.Parallel()
	bustest.Run(t, bustest.Factory{
		Store: func(*testing.T) bustest.StoreUnderTest { return &memUnderTest{s: bustest.NewMemStore()} },
		Blobs: func(*testing.T) (bus.Blobs, func(*testing.T) bus.Blobs) { return bustest.NewMemBlobs(), nil },
		Conns: func(t *testing.T, identities ...bus.Permissions) []bus.Conn {
			hub := bustest.NewMem()
			var conns []bus.Conn
			for i, allow := range identities {
				c := hub.Conn(fmt.Sprint(i), allow)
				t.Cleanup(c.Close)
				conns = append(conns, c)
			}
			return conns
		},
	})
}

type memUnderTest struct{ s *bustest.MemStore }

func (u *memUnderTest) Store() bus.Store { return u.s }

func (u *memUnderTest) Reopen(*testing.T) bus.Store {
	u.s = u.s.Reopen()
	return u.s
}

func (u *memUnderTest) Copy(t *testing.T) func(*testing.T) bus.Store {
	snapshot, err := u.s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u.s = u.s.Reopen()
	return func(*testing.T) bus.Store {
		u.s.Close()
		u.s = bustest.OpenMemStore(snapshot)
		return u.s
	}
}
