// Package exchangetest is the other side of an exchange in tests.
package exchangetest

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// OnAsk answers the questions to a peer until the test ends. answer gets a question, and the
// text of it as it was sent.
func OnAsk(t testing.TB, conn bus.Conn, peer exchange.Subjects,
	answer func(q rpc.Ask, sent string) (any, *wire.Problem)) {
	t.Helper()
	stop, err := conn.Subscribe(peer.Ask, func(_ context.Context, m bus.Msg) {
		var q rpc.Ask
		if err := json.Unmarshal(m.Data, &q); err != nil {
			t.Errorf("the peer was asked %s: %v", m.Data, err)
			return
		}
		a := rpc.Answer{V: wire.Version}
		data, p := answer(q, string(m.Data))
		var err error
		if a.Problem = p; p != nil {
			a.Error = p.Title
		} else {
			a.Data, err = json.Marshal(data)
		}
		var b []byte
		if err == nil {
			b, err = json.Marshal(a)
		}
		if err == nil {
			err = m.Respond(b)
		}
		if err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
}
