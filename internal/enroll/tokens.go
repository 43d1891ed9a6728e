package enroll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/pki/tokens"
	"github.com/verge-edge/verge/internal/wire"
)

// Bounds of tokens that are kept at a time: each is a record.
const (
	maxBearers = 1_000
	maxJoins   = 10_000
)

const (
	// bearerID is the length of the part of its hash that identifies a token for the API, whoIs
	// that of the part that names its user.
	bearerID = 16
	whoIs    = 8
	// tokenUser begins the name of who uses a token for the API.
	tokenUser = "token/"
)

// userOf is the name of who uses the token with a hash.
func userOf(hash string) string { return tokenUser + hash[:whoIs] }

// kept is a token with the key of its record.
type kept struct {
	apiv1.TokenView
	key string
}

// kept are all tokens, those that are good for longest first.
func (l *Ledger) kept(ctx context.Context) (out []kept, err error) {
	for _, prefix := range []string{keyToken, keyBearer} {
		entries, err := l.Store.List(ctx, prefix)
		if err != nil {
			return nil, fmt.Errorf("listing the tokens: %w", err)
		}
		for _, e := range entries {
			k := kept{key: e.Key}
			if prefix == keyToken {
				var r tokens.Record
				err = records.Load(e, &r)
				k.TokenView = apiv1.TokenView{ID: r.ID, Kind: r.Kind, Cluster: r.Cluster, Plugin: r.Plugin, By: r.By,
					Created: r.Created, Expires: r.Expires, Used: r.UsedAt, Gateway: r.Gateway, Uses: r.Uses,
					Joined: r.Joined}
			} else {
				var r bearerRecord
				err = records.Load(e, &r)
				hash := strings.TrimPrefix(e.Key, keyBearer)
				k.TokenView = apiv1.TokenView{ID: hash[:min(len(hash), bearerID)], Kind: "api", By: r.By,
					Created: r.Created, Expires: r.Expires}
			}
			if err != nil { // it lets nobody in; all others are as good as before
				k.TokenView = unread(prefix, strings.TrimPrefix(e.Key, prefix), err)
			}
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b kept) int { return cmp.Or(b.Expires.Compare(a.Expires), cmp.Compare(a.key, b.key)) })
	return out, nil
}

// unread is a token whose record cannot be read, with what its key says of it.
func unread(prefix, rest string, err error) apiv1.TokenView {
	v := apiv1.TokenView{ID: rest}
	if prefix == keyBearer {
		v.ID, v.Kind = rest[:min(len(rest), bearerID)], "api"
	}
	v.Problem = fmt.Sprintf("the stored record of token %s cannot be read (%.200v): it grants no access. To repair "+
		"it, verge token revoke %s, and create another", v.ID, err, v.ID)
	return v
}

// Tokens are all that were created here, longest-lived first, including those that expired some
// days ago. See rest.Backend.
func (l *Ledger) Tokens(ctx context.Context) ([]apiv1.TokenView, error) {
	all, err := l.kept(ctx)
	out := make([]apiv1.TokenView, 0, len(all))
	for _, k := range all {
		out = append(out, k.TokenView)
	}
	return out, err
}

// RevokeToken makes a token good for nothing, and those for the API that were made
// with it; see rest.Backend.
func (l *Ledger) RevokeToken(ctx context.Context, id string) ([]apiv1.TokenView, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, err := l.kept(ctx)
	if err != nil {
		return nil, err
	}
	first, err := find(all, strings.TrimPrefix(id, tokenUser))
	if err != nil {
		return nil, err
	}
	if !first.Used.IsZero() {
		return nil, wire.Problemf(409, "token-used",
			"to lock the node out that has it: verge revoke worker/NAME, or at the root cluster/NAME",
			"nothing was changed: a node has joined with the token",
			"token %s was used at %s, and is good for no other node", first.ID, first.Used.UTC().Format(time.RFC3339))
	}
	take := []kept{first}
	for i := 0; i < len(take); i++ { // grows meanwhile
		for _, k := range all {
			if take[i].Kind == "api" && k.By == tokenUser+take[i].ID[:whoIs] && !slices.Contains(take, k) {
				take = append(take, k)
			}
		}
	}
	// What was made before what made it, so that trying again after a failure finds
	// the rest.
	slices.Reverse(take)
	out := make([]apiv1.TokenView, 0, len(take))
	for chunk := range slices.Chunk(take, bus.MaxCommitOps) {
		var ops []bus.Op
		for _, k := range chunk {
			ops = append(ops, bus.Del(k.key))
		}
		_, err := l.Store.Commit(ctx, ops...)
		switch {
		case errors.Is(err, bus.ErrUnknownOutcome):
			return nil, wire.Problemf(503, "outcome-unknown", "look (verge token ls), then try again",
				"it is not known whether the token was taken back", "%v", err)
		case err != nil:
			return nil, wire.Problemf(507, "not-stored", "free some space or repair the disk, then try again",
				"the token is good as before: it could not be stored", "%v", err)
		}
		for _, k := range chunk {
			l.ended.End(k.key)
			out = append(out, k.TokenView)
		}
	}
	slices.Reverse(out)
	return out, nil
}

// find is the token whose id begins with at least as much as names its user.
func find(all []kept, id string) (found kept, err error) {
	n := 0
	for _, k := range all {
		if len(id) >= whoIs && strings.HasPrefix(k.ID, id) {
			found, n = k, n+1
		}
	}
	switch {
	case n == 0:
		return found, wire.Problemf(404, "no-such-token", "verge token ls", "there is no such token",
			"%.40q is neither the id of a token nor its first %d or more characters", id, whoIs)
	case n > 1:
		return found, wire.Problemf(409, "ambiguous", "give more of it: verge token ls", "that could be several tokens",
			"%d begin with %.40q", n, id)
	}
	return found, nil
}

// CutOff ends what is open with tokens that a user made, who may do less now.
func (l *Ledger) CutOff(ctx context.Context, who string) {
	all, err := l.kept(ctx)
	if err != nil {
		return // they are refused at their next request
	}
	for _, k := range all {
		if k.By == who {
			l.ended.End(k.key)
		}
	}
}

// roomFor says whether one more token can be kept: nil, or a problem. Those that
// are forgotten by the way do not count.
func (l *Ledger) roomFor(ctx context.Context, prefix string, most, forgotten int) error {
	entries, err := l.Store.List(ctx, prefix)
	if err != nil {
		return fmt.Errorf("counting the tokens: %w", err)
	}
	if n := len(entries) - forgotten; n >= most {
		return wire.Problemf(409, "too-many",
			"take those back that are not used (verge token ls), or wait until some have expired",
			"there are too many tokens", "%d, at most %d", n, most)
	}
	return nil
}

// mayMake says whether a requester may still create a token for the API. The mutex is held.
func (l *Ledger) mayMake(ctx context.Context, who string) error {
	if !strings.HasPrefix(who, tokenUser) {
		return nil
	}
	entries, err := l.Store.List(ctx, keyBearer+strings.TrimPrefix(who, tokenUser))
	if err == nil && len(entries) == 0 {
		err = notKnown()
	}
	return err
}

func notKnown() error {
	return wire.Problemf(401, "bad-token", remedyBearer, "the API token is refused",
		"it is not known here: it was taken back, or made elsewhere")
}

// made says whether who made a token for the API is still an administrator.
func (l *Ledger) made(ctx context.Context, who string) error {
	if l.Administers == nil {
		return nil
	}
	ok, err := l.Administers(ctx, who)
	if err == nil && !ok {
		err = wire.Problemf(401, "bad-token", remedyBearer, "the API token is refused",
			"%s, who created it, is no longer an administrator", who)
	}
	return err
}
