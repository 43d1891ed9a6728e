package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/cli"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire"
)

// Files of a plugin's identity for clients of NATS, beside those that every node has.
const (
	pluginCA    = "ca.pem"
	pluginCreds = "nats.creds"
	pluginFile  = "nats.json"
)

// joinPlugin makes the identity of a scheduler plugin, or writes the files of the one
// that there is.
func joinPlugin(ctx context.Context, j cli.PluginJoin) (out cli.PluginIdentity, err error) {
	dir, err := filepath.Abs(j.Dir)
	if err != nil {
		return out, fmt.Errorf("--dir: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return out, fmt.Errorf("preparing the folder for the identity: %w", err)
	}
	have, err := enroll.Node{
		Dir: dir, Kind: pki.KindPlugin, TokenFile: j.TokenFile, Stdin: j.Stdin, Version: obs.Version(), Public: pki.EnsureKey,
		Save: func(dir string, r wire.JoinReply) error { return pki.SaveIdentity(dir, r.Chain, r.CA) },
		Warn: j.Warn,
	}.Join(ctx)
	if err != nil {
		return out, err
	}
	id, err := pki.LoadIdentity(dir)
	if err != nil {
		return out, err
	}
	who := id.Subject()
	if who.Role != pki.RolePlugin {
		return out, wire.Problemf(0, "other-identity", "choose another --dir", "the folder has another identity", "%s holds that of %s", dir, who)
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
		Subject: bus.PluginSubjects(who.Name), Queue: who.Name, File: filepath.Join(dir, pluginFile),
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
