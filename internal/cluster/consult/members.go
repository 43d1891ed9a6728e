package consult

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/credentials"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/advisor"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/wire"
)

const (

	// MaxMembers bounds the keys that count, of all plugins together.
	MaxMembers = 256
	// AgainPlugin is what a plugin that was revoked has to do.
	AgainPlugin = "verge token create --plugin NAME, then verge plugin join --token-file FILE with an empty --dir"
)

// KeepMember stores what is known of a process of a plugin; nil deletes it. The caller has the model.
func KeepMember(ctx context.Context, c *core.Core, key string, m *advisor.Member, also ...bus.Op) error {
	t := c.M.Begin()
	advisor.Members.Put(t.Rows, key, m)
	return c.Keeper.Whole(ctx, t, also...)
}

// Holds says who has joined with one of two keys, but the member itself; "" if nobody.
func Holds(m *state.Model, hash, natsKey, itself string) string {
	for name, w := range m.Workers {
		if w.KeyHash == hash || w.PublicKey == natsKey {
			return "worker " + name
		}
	}
	return MemberWith(m, hash, natsKey, itself)
}

// MemberWith is the plugin that has joined with one of two keys, but itself.
func MemberWith(m *state.Model, hash, natsKey, itself string) string {
	for key, x := range advisor.Members.Rows(m.DB) {
		if key != itself && (x.KeyHash == hash || x.NatsKey == natsKey) {
			return "plugin " + pluginOf(key)
		}
	}
	return ""
}

// pluginOf is the plugin of a key of members.
func pluginOf(key string) string {
	name, _, _ := strings.Cut(key, ".")
	return name
}

// RevokePlugin makes the keys of all processes that are a plugin count no more.
func RevokePlugin(ctx context.Context, c *core.Core, name string, now time.Time) (gone []*enroll.Gone, err error) {
	return core.View2(c, func(_ *state.Model) (gone []*enroll.Gone, err error) {
		if err := core.Reload(ctx, c, time.Now()); err != nil {
			return nil, err
		}
		for _, key := range records.SortedKeys(advisor.Members.Rows(c.M.DB)) {
			if pluginOf(key) != name {
				continue
			}
			m := advisor.Members.Rows(c.M.DB)[key]
			g := &enroll.Gone{V: wire.Version, Name: name, Removed: true, At: now, NatsKey: m.NatsKey,
				Until: m.Expires.Add(pki.RenewGrace)}
			t := c.M.Begin()
			advisor.Members.Put(t.Rows, key, nil)
			if err := core.Note(ctx, c, t, m.KeyHash, g); err != nil {
				return gone, err
			}
			gone = append(gone, g)
		}
		if len(gone) == 0 {
			return nil, wire.Problemf(404, "no-such-plugin",
				"only plugins on the bus have keys, see verge events for those that joined", "there is no such plugin",
				"nobody has joined cluster %s as plugin %.63q", c.ClusterName, name)
		}
		c.EventRing.Note(time.Now(), event.PluginRevoked, c.ClusterName,
			fmt.Sprintf("the keys of plugin %s were revoked: %s", name, wire.Count(len(gone), "process")))
		return gone, nil
	})
}

// onBus is a plugin that is asked over the bus.
type onBus struct {
	conn bus.Conn
	name string
}

var _ advisor.Asker = onBus{}

// Ask implements asker.
func (p onBus) Ask(ctx context.Context, q plugin.Question) (map[string]plugin.Verdict, error) {
	data, err := plugin.Encode(q, plugin.MaxQuestion)
	if err != nil {
		return nil, err
	}
	answer, err := p.conn.Request(ctx, credentials.PluginSubject(p.name), data)
	switch {
	case err == nil:
		return plugin.Decode(q, answer)
	case ctx.Err() != nil:
		return nil, &plugin.Error{Class: plugin.Late, Text: "it did not answer in time"}
	case errors.Is(err, bus.ErrNoResponder):
		return nil, &plugin.Error{Class: plugin.Unreachable, Text: "it is not connected to the bus"}
	}
	return nil, &plugin.Error{Class: plugin.Unreachable, Text: fmt.Sprintf("it cannot be reached: %v", err)}
}

// Close implements asker; the connection is the cluster's.
func (onBus) Close() {}

// newAsker prepares to ask a plugin.
func newAsker(c *core.Core, config plugin.Config) (advisor.Asker, error) {
	if config.URL == plugin.OnBus {
		return onBus{c.Local, config.Name}, nil
	}
	return plugin.NewHTTP(config)
}
