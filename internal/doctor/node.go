package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Node is a role on this machine, as it is configured.
type Node struct {
	Role string // "root", "cluster" or "worker"
	Dir  string
	// Listen are the addresses that it listens on, by the name of their setting.
	Listen map[string]string
	// TokenFile that it would join with, "" if none is set.
	TokenFile string
	// Containerd is the address of containerd's socket, "" the usual one.
	Containerd string
	// Peers are the addresses of the tier above; empty: those of the join.
	Peers []string
	// Network of a worker: auto, overlay or loopback.
	Network string
	// Uplink of a worker in the service network, "" where it is in none, and "0bps"
	// where none is set.
	Uplink string
}

// How long to wait for another machine.
const dialTimeout = 3 * time.Second

// Look looks at what a role needs, whether it runs at the moment or not.
func (n Node) Look(ctx context.Context, now time.Time) []Finding {
	out := []Finding{n.files()}
	if n.Role == "worker" {
		out = append(out, workerKernel()...)
		out = append(out, n.containers(ctx))
		out = append(out, n.network()...)
		out = append(out, n.addresses(hostNetworks()))
		if n.Uplink != "" {
			out = append(out, uplink(n.Uplink, module("sch_tbf")))
		}
	}
	out = append(out, n.space()...)
	out = append(out, n.ports()...)
	if n.Role == "root" {
		return append(out, n.identity(n.Dir, now)...)
	}
	dir := n.Dir
	if n.Role == "worker" {
		dir = filepath.Join(n.Dir, "identity")
	}
	joined, err := registration(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) && n.TokenFile == "":
		return append(out, bad(Warn, "join", pageTokens,
			"make a token (verge token create) and start it with --token-file",
			"this %s has not joined yet, and no token is set", n.Role))
	case errors.Is(err, os.ErrNotExist):
		return append(out, bad(Note, "join", pageTokens, "start it: verge "+n.Role, "this %s has not joined yet",
			n.Role))
	case err != nil:
		return append(out, bad(Fail, "join", pageFiles,
			"restore the file from a backup, or join again with a new token", "%v", err))
	}
	out = append(out, ok("join", "cluster %s of root %s", joined.Cluster, joined.Root))
	out = append(out, n.identity(dir, now)...)
	if len(n.Peers) == 0 {
		n.Peers = joined.Link
	}
	return append(out, n.links(ctx)...)
}

// registration is what a node keeps of its join.
func registration(dir string) (r rpc.JoinReply, err error) {
	const most = 256 << 10
	path := filepath.Join(dir, "joined.json")
	b, err := atomicfile.ReadBounded(path, most)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("%s is damaged: %w", path, err)
	}
	return r, nil
}

// files looks at the data directory.
func (n Node) files() Finding {
	const check = "data directory"
	st, err := os.Stat(n.Dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return bad(Note, check, pageFiles, "it is made at the first start", "%s is not there yet", n.Dir)
	case err != nil:
		return bad(Fail, check, pageFiles, "give it to the user that runs verge", "%v", err)
	case !st.IsDir():
		return bad(Fail, check, pageFiles, "choose another with --data-dir", "%s is not a directory", n.Dir)
	case st.Mode().Perm()&0o077 != 0:
		return bad(Warn, check, pageFiles, "chmod 700 "+n.Dir, "%s may be read by others (mode %04o), and holds keys",
			n.Dir, st.Mode().Perm())
	}
	f, err := os.CreateTemp(n.Dir, ".doctor-*")
	if err == nil {
		begin := time.Now()
		_, err = f.WriteString("x")
		err = errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
		if took := time.Since(begin); err == nil && took > time.Second {
			return bad(Warn, check, pageFiles,
				"use a faster disk: every change is written to it before it is acknowledged",
				"%s: one small write took %s", n.Dir, took.Round(10*time.Millisecond))
		}
	}
	if err != nil {
		return bad(Fail, check, pageFiles, "give it to the user that runs verge, and make room on the disk",
			"%s cannot be written: %v", n.Dir, err)
	}
	return ok(check, "%s can be written", n.Dir)
}

// ports looks whether the addresses can be listened on.
func (n Node) ports() (out []Finding) {
	for _, name := range slices.Sorted(maps.Keys(n.Listen)) {
		addr := n.Listen[name]
		if addr == "" {
			continue
		}
		check := "port --" + name
		l, err := net.Listen("tcp", addr)
		switch {
		case err == nil:
			_ = l.Close() // nobody knows of it
			out = append(out, ok(check, "%s is free", addr))
		case errors.Is(err, syscall.EADDRINUSE):
			out = append(out, bad(Note, check, pagePorts, "nothing, if that is this "+n.Role+
				"; else choose another with --"+name+" (ss -ltnp shows who has it)",
				"%s is in use", addr))
		default:
			out = append(out, bad(Fail, check, pagePorts, "choose another with --"+name, "%v", err))
		}
	}
	return out
}

// identity looks at the certificate in dir.
func (n Node) identity(dir string, now time.Time) []Finding {
	const check = "certificate"
	id, err := pki.LoadIdentity(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []Finding{bad(Fail, check, pageCerts, "restore the file from a backup, or join again with a new token",
			"%v", err)}
	}
	leaf := id.Leaf()
	until := leaf.NotAfter.UTC().Format("2006-01-02")
	switch {
	case now.Before(leaf.NotBefore):
		return []Finding{bad(Warn, check, pageCerts, "set the clock", "it is valid from %s only",
			leaf.NotBefore.UTC().Format(time.RFC3339))}
	case now.After(leaf.NotAfter):
		return []Finding{bad(Fail, check, pageCerts,
			"start it: it is renewed within 180 days; after that join again with a new token", "it expired on %s",
			until)}
	case now.After(id.RenewAt()):
		return []Finding{bad(Note, check, pageCerts, "nothing: it is renewed as soon as the tier above answers",
			"%s, valid until %s, due to be renewed", id.Subject(), until)}
	}
	return []Finding{ok(check, "%s, valid until %s", id.Subject(), until)}
}

// links looks whether the tier above can be reached at all.
func (n Node) links(ctx context.Context) []Finding {
	const check = "link"
	if len(n.Peers) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	errs := make([]error, len(n.Peers))
	var all sync.WaitGroup
	for i, addr := range n.Peers {
		all.Go(func() {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", addr)
			if err == nil {
				err = c.Close()
			}
			errs[i] = err
		})
	}
	all.Wait()
	for i, err := range errs {
		if err == nil {
			return []Finding{ok(check, "%s can be reached", n.Peers[i])}
		}
	}
	above := map[string]string{"cluster": "root", "worker": "cluster"}[n.Role]
	return []Finding{bad(Warn, check, pagePorts,
		fmt.Sprintf("is the %s running, and does the way there let TCP through? If it has moved: --%s HOST:PORT", above,
			above),
		"%v", errors.Join(errs...))}
}

// space looks at the file system of the data directory.
func (n Node) space() []Finding {
	at := n.Dir
	for {
		if _, err := os.Stat(at); err == nil || filepath.Dir(at) == at {
			break
		}
		at = filepath.Dir(at)
	}
	free, volatile, err := fileSystem(at)
	if err != nil {
		return []Finding{bad(Warn, "disk", pageFiles, "look at it with df", "%v", err)}
	}
	const least, little = 64 << 20, 1 << 30
	text := fmt.Sprintf("%.1f GiB free at %s", float64(free)/(1<<30), at)
	switch {
	case free < least:
		return []Finding{bad(Fail, "disk", pageFiles, "make room, or choose another --data-dir", "%s", text)}
	case volatile != "":
		return []Finding{bad(Warn, "disk", pageFiles, "choose a --data-dir on a disk",
			"%s is on %s: all of it is gone with the next start of the machine", at, volatile)}
	case free < little:
		return []Finding{bad(Warn, "disk", pageFiles, "make room, or choose another --data-dir", "%s", text)}
	}
	return []Finding{ok("disk", "%s", text)}
}
