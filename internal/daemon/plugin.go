package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/bus/credentials"
	"github.com/verge-edge/verge/internal/cli"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/pki/tokens"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Files of a plugin's identity for clients of NATS, beside those that every node has.
const (
	pluginCA    = "ca.pem"
	pluginCreds = "nats.creds"
	pluginFile  = "nats.json"
)

// joinPlugin makes the identity of a scheduler plugin, or writes the files of the one
// that there is.
func joinPlugin(ctx context.Context, j cli.PluginJoin) (cli.PluginIdentity, error) {
	return joinPluginBy(ctx, j, nil)
}

// joinPluginBy judges certificates by a clock; nil is the machine's.
func joinPluginBy(ctx context.Context, j cli.PluginJoin, clock *pki.Clock) (out cli.PluginIdentity, err error) {
	dir, err := filepath.Abs(j.Dir)
	if err != nil {
		return out, fmt.Errorf("--dir: %w", err)
	}
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return out, fmt.Errorf("preparing the folder for the identity: %w", err)
	}
	before, err := enroll.Joined(dir)
	joined := err == nil
	have, err := enroll.Node{
		Dir: dir, Kind: tokens.KindPlugin, TokenFile: j.TokenFile, Stdin: j.Stdin, Version: obs.Version(),
		Public: pki.EnsureKey,
		Save:   savePlugin, Warn: j.Warn, Clock: clock,
		Ask: func(ctx context.Context, have rpc.JoinReply) (rpc.JoinReply, error) {
			return askForPlugin(ctx, dir, clock, have)
		},
	}.Join(ctx)
	if err != nil {
		return out, err
	}
	if joined && have.BusJWT == before.BusJWT { // else it has just been certified
		next, err := renewPlugin(ctx, dir, clock, have)
		if final := enroll.Final(err); final != nil {
			return out, final
		}
		if err != nil {
			j.Warn("the cluster could not be asked whether the identity is to be renewed, it is used as it is: " +
				err.Error())
		} else {
			have = next
		}
	}
	return writePlugin(dir, have)
}

func savePlugin(dir string, r rpc.JoinReply) error { return pki.SaveIdentity(dir, r.Chain, r.CA) }

// askForPlugin asks the cluster for the certificate of the identity in dir again. One that
// is good for as long as it was at first, half of its life, is kept: then the answer has
// no chain.
func askForPlugin(ctx context.Context, dir string, clock *pki.Clock, have rpc.JoinReply) (rpc.JoinReply, error) {
	id, err := pki.LoadIdentity(dir)
	if err != nil {
		return rpc.JoinReply{}, err
	}
	id.Clock = clock
	key, err := enroll.Key(dir)
	if err != nil {
		return rpc.JoinReply{}, err
	}
	return enroll.Asker{
		API: enroll.APIAddrs(have, have.Link, rpc.ClusterAPIPort), Server: have.LinkName, TLS: id.ClientTLS(have.LinkName),
		Prove: func(text string) ([]byte, error) { return pki.Prove(dir, text) },
	}.Ask(ctx, rpc.RenewRequest{
		V: wire.Version, Name: wire.PluginPrefix + id.Subject().Name, PublicKey: id.Leaf().RawSubjectPublicKeyInfo,
		NatsKey: key.Public(), Version: obs.Version(),
		Holds: enroll.HeldID(id.Leaf().NotAfter, id.TrustID(), id.Issuers()),
	})
}

// renewalTimeout bounds one question whether a plugin's identity is to be renewed.
const renewalTimeout = 30 * time.Second

// renewPlugin calls askForPlugin, and stores the answer.
func renewPlugin(ctx context.Context, dir string, clock *pki.Clock, have rpc.JoinReply) (rpc.JoinReply, error) {
	ctx, cancel := context.WithTimeout(ctx, renewalTimeout)
	defer cancel()
	now, err := askForPlugin(ctx, dir, clock, have)
	var p *wire.Problem
	if errors.As(err, &p) && p.Code == enroll.CodeTooSoon {
		return have, nil // it was renewed a moment ago
	}
	if err != nil {
		return have, err
	}
	if now.Chain != "" {
		if err := savePlugin(dir, now); err != nil {
			return have, err
		}
	}
	have = enroll.Moved(have, now)
	return have, enroll.SaveJoined(dir, have)
}

const (
	// pluginRenewals is how often a plugin's identity is looked at: often enough to take
	// a rotation of authorities over while both count.
	pluginRenewals = 6 * time.Hour
	// After a failure it is tried again sooner, at first after pluginRetry.
	pluginRetry = time.Minute
)

// keepPlugin renews the identity in dir whenever that is due, until ctx ends or the
// cluster refuses it for good.
func keepPlugin(ctx context.Context, k cli.PluginKeep) error { return keepPluginBy(ctx, k, nil) }

func keepPluginBy(ctx context.Context, k cli.PluginKeep, clock *pki.Clock) error {
	dir, err := filepath.Abs(k.Dir)
	if err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	for failures := 0; ; {
		pause := pluginRenewals
		if failures > 0 {
			pause = min(pluginRetry<<min(failures-1, 9), pluginRenewals)
		}
		_ = k.Sleep(ctx, pause-rand.N(pause/10)) // ctx says whether to go on
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to end
		}
		before, err := enroll.Joined(dir)
		if err != nil {
			return err
		}
		now, err := renewPlugin(ctx, dir, clock, before)
		if err == nil {
			_, err = writePlugin(dir, now)
		}
		switch final := enroll.Final(err); {
		case final != nil:
			return final
		case err != nil:
			if failures++; failures == 1 {
				k.Say("the identity could not be renewed, it is tried again: " + err.Error())
			}
		case now.Chain != before.Chain:
			failures = 0
			k.Say("the identity was renewed; who uses it takes it at its next connection")
		default:
			failures = 0
		}
	}
}

// writePlugin writes the files that clients of NATS read.
func writePlugin(dir string, have rpc.JoinReply) (out cli.PluginIdentity, err error) {
	id, err := pki.LoadIdentity(dir)
	if err != nil {
		return out, err
	}
	who := id.Subject()
	if who.Role != pki.RolePlugin {
		return out, wire.Problemf(0, "other-identity", "choose another --dir", "the folder has another identity",
			"%s holds that of %s", dir, who)
	}
	cert, private := pki.IdentityFiles(dir)
	key, err := enroll.Key(dir)
	if err != nil {
		return out, err
	}
	creds, err := key.Credentials(have.BusJWT)
	if err != nil {
		return out, fmt.Errorf("writing the credentials for NATS: %w", err)
	}
	out = cli.PluginIdentity{
		Plugin: who.Name, Cluster: who.Cluster, TLSName: have.LinkName,
		CA: filepath.Join(dir, pluginCA), Cert: cert, Key: private, Credentials: filepath.Join(dir, pluginCreds),
		Subject: credentials.PluginSubjects(who.Name), Queue: who.Name, File: filepath.Join(dir, pluginFile),
	}
	for _, a := range have.Link {
		out.Servers = append(out.Servers, "tls://"+a)
	}
	text, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return out, err
	}
	for _, f := range []struct {
		path string
		data []byte
		mode os.FileMode
	}{{out.CA, []byte(id.CAPEM()), 0o644}, {out.Credentials, creds, 0o600}, {out.File, append(text, '\n'), 0o644}} {
		if err := atomicfile.Write(f.path, f.data, f.mode); err != nil {
			return out, fmt.Errorf("writing the identity: %w", err)
		}
	}
	return out, nil
}
