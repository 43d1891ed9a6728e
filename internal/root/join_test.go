package root

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

// A join that failed after the cluster was noted is made again by the cluster; then it is
// listened to, as after one that went well.
func TestAJoinThatFailedHalfWay(t *testing.T) {
	r, err := Start(t.Context(), Options{Dir: t.TempDir(), APIAddr: "127.0.0.1:0", LinkAddr: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	token, err := r.NewClusterToken(t.Context(), "edge")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	public, err := pki.EnsureClusterKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	key, err := enroll.Key(dir)
	if err != nil {
		t.Fatal(err)
	}
	link, asked := r.link, 0
	r.link = func(name string) (bus.Conn, error) {
		if asked++; asked == 2 {
			return nil, errors.New("too much to do")
		}
		return link(name)
	}
	q := wire.JoinRequest{V: wire.Version, Token: token, Name: "edge", PublicKey: public, NatsKey: key.Public()}
	if _, err := (backend{r}).Join(t.Context(), q); err == nil {
		t.Fatal("it joined")
	}
	if _, err := (backend{r}).Join(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.served["edge"]; !ok {
		t.Error("nobody listens to it")
	}
}
