package cli

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/cli/redact"
	"github.com/verge-edge/verge/internal/doctor"
	"github.com/verge-edge/verge/internal/leftover"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Bounds of a support bundle.
const (
	bundleFile    = 4 << 20  // of one file in it
	bundleWhole   = 96 << 20 // of all, before they are compressed
	bundleAtOnce  = 8        // questions
	bundleWorkers = 200      // that are asked
	bundleLogs    = 300      // instances whose logs are read
	bundleEvents  = 5000
)

type bundleFlags struct {
	out     string
	with    []string
	timeout time.Duration
	tail    int
}

func (a *app) supportBundleCommand() *cobra.Command {
	var f bundleFlags
	cmd := &cobra.Command{
		Use: "support-bundle", Args: noArgs,
		Short: "Collect diagnostics in one file, without secrets",
		Long: "Collect diagnostics in one file (tar.gz): versions, status, lists, events and metrics of\n" +
			"the context's server and its workers, the ends of instances' logs, what verge doctor finds here, and " +
			"the settings\n" +
			"of daemons on this machine. Descriptors, the environment of instances and the contents of secrets, " +
			"objects and contexts\n" +
			"are not collected; tokens, private keys and passwords are redacted (SUMMARY.txt says in how " +
			"many places).\n" +
			"A program may still print secrets in a form of its own: --tail 0 leaves logs out. Look through it " +
			"before you pass it on.\n" +
			"What cannot be reached is named in SUMMARY.txt, and is no error.",
		Example: "  verge support-bundle -o problem.tar.gz --with edge",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.supportBundle(cmd.Context(), f) },
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.out, "output", "o", "",
		"file to write, - for standard output (default: verge-support-TIME.tar.gz)")
	fl.StringArrayVar(&f.with, "with", nil, "another context to ask, for example that of a cluster (repeatable)")
	fl.DurationVar(&f.timeout, "timeout", time.Minute, "leave out what has not answered by then")
	fl.IntVar(&f.tail, "tail", 100, "lines of the log of each instance; 0 leaves logs out")
	return cmd
}

// bundle is a support bundle that is being made.
type bundle struct {
	a      *app
	now    time.Time
	known  [][]byte // secrets of the contexts in use
	places chan struct{}

	mu      sync.Mutex // guards below
	files   map[string][]byte
	size    int
	hidden  int      // places that were redacted
	missing []string // and why
}

func (a *app) supportBundle(ctx context.Context, f bundleFlags) error {
	if f.tail < 0 || f.timeout <= 0 {
		return &userError{what: "support-bundle", why: "--tail and --timeout must not be negative",
			next: "see: verge support-bundle --help"}
	}
	b := &bundle{a: a, now: a.opts.Now(), places: make(chan struct{}, bundleAtOnce), files: map[string][]byte{}}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	b.here(ctx)
	var all sync.WaitGroup
	for i, name := range append([]string{""}, f.with...) {
		b.server(ctx, &all, i == 0, name, f.tail)
	}
	all.Wait()
	if context.Cause(ctx) != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return context.Cause(ctx) // Ctrl-C: it is not wanted any more
	}
	return b.write(f.out)
}

// server asks the server of a context; the first is the one in use.
func (b *bundle) server(ctx context.Context, all *sync.WaitGroup, first bool, name string, tail int) {
	x := &app{opts: b.a.opts, err: io.Discard, context: cmp.Or(name, b.a.context)}
	what := "the context " + cmp.Or(name, "in use")
	e, _, err := x.findContext()
	if err != nil {
		b.miss(what, err)
		return
	}
	b.mu.Lock()
	for _, s := range []string{e.Token, e.Key} {
		if s = strings.TrimSpace(s); s != "" {
			b.known = append(b.known, []byte(s))
		}
	}
	b.mu.Unlock()
	c, err := client.New(e)
	if err != nil {
		b.miss(what, err)
		return
	}
	all.Go(func() {
		defer c.Close()
		var of sync.WaitGroup
		b.ask(ctx, &of, c, path.Join("servers", fileWord(cmp.Or(name, e.Name))), first, tail)
		of.Wait()
	})
}

// ask asks one server for all that it may tell.
func (b *bundle) ask(ctx context.Context, all *sync.WaitGroup, c *client.Client, dir string, first bool, tail int) {
	st, err := c.System.Status(ctx)
	if err != nil {
		b.miss(dir, err)
		return
	}
	b.json(dir+"/status.json", st)
	if st.Role == "root" {
		for _, cl := range st.Clusters {
			b.mu.Lock()
			b.missing = append(b.missing, "cluster "+cl.Name+
				": of it there is what the root knows; --with a context of the cluster adds its own events and metrics")
			b.mu.Unlock()
		}
	}
	for name, get := range map[string]func(context.Context) (any, error){
		"version.json":       func(ctx context.Context) (any, error) { return c.System.Version(ctx) },
		"clusters.json":      func(ctx context.Context) (any, error) { return c.Clusters.List(ctx) },
		"workers.json":       func(ctx context.Context) (any, error) { return c.Workers.List(ctx) },
		"namespaces.json":    func(ctx context.Context) (any, error) { return c.Namespaces.List(ctx) },
		"top-instances.json": func(ctx context.Context) (any, error) { return c.Metrics.Instances(ctx, "") },
		"top-workers.json":   func(ctx context.Context) (any, error) { return c.Metrics.Workers(ctx) },
		"hooks.json":         func(ctx context.Context) (any, error) { return hostsOnly(c.Hooks.List(ctx)) },
		"events.json":        func(ctx context.Context) (any, error) { return lastEvents(ctx, c) },
		"metrics.txt": func(ctx context.Context) (any,
			error) {
			return c.Metrics.Page(ctx, "", "", bundleFile)
		},
		"application-list.json": func(ctx context.Context) (any, error) { return c.Applications.List(ctx) },
	} {
		b.fetch(ctx, all, dir+"/"+name, get)
	}
	if workers, err := c.Workers.List(ctx); err == nil {
		for i, w := range workers {
			at := w.Cluster + "/" + w.Name
			if i >= bundleWorkers {
				b.miss(dir, fmt.Errorf("the metrics and entries of %d more workers: %d are asked at most",
					len(workers)-i, bundleWorkers))
				break
			}
			b.fetch(ctx, all, path.Join(dir, "workers", at, "entries.json"),
				func(ctx context.Context) (any, error) { return c.Workers.Entries(ctx, w.Cluster, w.Name) })
			b.fetch(ctx, all, path.Join(dir, "workers", at, "metrics.txt"),
				func(ctx context.Context) (any, error) { return c.Metrics.Page(ctx, w.Cluster, w.Name, bundleFile) })
		}
	}
	list, err := c.Instances.List(ctx, "", "")
	if err != nil {
		b.miss(dir+"/instances.json", err)
		return
	}
	b.json(dir+"/instances.json", list)
	if tail == 0 || !first {
		return
	}
	// Unhealthy ones first.
	slices.SortStableFunc(list, func(x, y apiv1.InstanceView) int { return wellness(x) - wellness(y) })
	for i, in := range list {
		if i >= bundleLogs {
			b.miss(dir, fmt.Errorf("the logs of %d more instances: %d are read at most", len(list)-i, bundleLogs))
			break
		}
		b.fetch(ctx, all, path.Join(dir, "logs", in.ID+".log"), func(ctx context.Context) (any, error) {
			chunk, err := c.Instances.Logs(ctx, in.ID, rpc.LogAsk{Offset: -int64(tail), Max: logPage})
			return chunk.Data, err
		})
	}
}

// hostsOnly leaves of the URLs of hooks where they lead: the rest is a secret of some
// receivers.
func hostsOnly(list []apiv1.HookView, err error) ([]apiv1.HookView, error) {
	for i := range list {
		if u, perr := url.Parse(list[i].URL); perr == nil {
			list[i].URL = u.Scheme + "://" + u.Host
		} else {
			list[i].URL = ""
		}
	}
	return list, err
}

// wellness sorts instances: 0 is what somebody wants to look at.
func wellness(i apiv1.InstanceView) int {
	switch {
	case i.State != wire.Running || !i.Ready:
		return 0
	case i.Again() > 0:
		return 1
	}
	return 2
}

// lastEvents are all events that the server still has.
func lastEvents(ctx context.Context, c *client.Client) ([]apiv1.Event, error) {
	var all []apiv1.Event
	for after := uint64(0); len(all) < bundleEvents; {
		page, err := c.Events.After(ctx, after, 0)
		if err != nil || len(page.Events) == 0 {
			return all, err
		}
		after, all = page.After, append(all, page.Events...)
	}
	return all, nil
}

// fetch gets one file, when there is a place. What is bytes is a text.
func (b *bundle) fetch(ctx context.Context, all *sync.WaitGroup, name string, get func(context.Context) (any, error)) {
	all.Go(func() {
		select {
		case b.places <- struct{}{}:
			defer func() { <-b.places }()
		case <-ctx.Done():
			b.miss(name, ctx.Err())
			return
		}
		v, err := get(ctx)
		if err != nil {
			b.miss(name, err)
			return
		}
		if text, ok := v.([]byte); ok {
			b.add(name, text)
			return
		}
		b.json(name, v)
	})
}

// here is what this machine knows.
func (b *bundle) here(ctx context.Context) {
	found := append(doctor.Machine(b.now), doctor.Leftovers(ctx, leftover.Options{})...)
	found = append(found, b.a.contextFindings(ctx)...)
	b.json("here/doctor.json", found)
	b.json("here/version.json", map[string]string{"version": b.a.opts.Version})
	for _, role := range []string{"root", "cluster", "worker"} {
		if _, err := os.Stat(b.a.daemonLine().ConfigFile(role)); err != nil {
			continue // no such daemon here, or one that is started by its command line
		}
		var out bytes.Buffer
		x := &app{opts: b.a.opts, out: &out, err: io.Discard}
		cmd := x.configCommand()
		cmd.SetArgs([]string{"print", role})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetOut(&out)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(ctx); err != nil {
			b.miss("here/"+role+".yaml", err)
		}
		b.add("here/"+role+".yaml", out.Bytes())
	}
}

func (b *bundle) json(name string, v any) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		b.miss(name, err)
		return
	}
	b.add(name, append(data, '\n'))
}

// add puts a text into the bundle, its end if it is too long, without what must not
// be in it.
func (b *bundle) add(name string, text []byte) {
	cut := len(text) > bundleFile
	if cut {
		text = text[len(text)-bundleFile:]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	text, n := redact.Text(text, b.known)
	b.hidden += n
	if b.size+len(text) > bundleWhole {
		b.missing = append(b.missing, name+": the bundle is full")
		return
	}
	if cut {
		b.missing = append(b.missing, fmt.Sprintf("%s: its beginning, it is longer than %d bytes", name, bundleFile))
	}
	b.files[name] = text
	b.size += len(text)
}

func (b *bundle) miss(name string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text, _ := redact.Text([]byte(firstLine(err)), b.known)
	b.missing = append(b.missing, name+": "+clean(string(text)))
}

// write writes the bundle; the file is there as a whole or not at all.
func (b *bundle) write(out string) error {
	slices.Sort(b.missing)
	var sum bytes.Buffer
	fmt.Fprintf(&sum, "Support bundle of Verge, made at %s by version %s.\n"+
		"%d places were redacted: tokens, keys, passwords.\n",
		b.now.UTC().Format(time.RFC3339), b.a.opts.Version, b.hidden)
	fmt.Fprintf(&sum, "\nMissing (%d):\n", len(b.missing))
	for _, m := range b.missing {
		fmt.Fprintf(&sum, "- %s\n", m)
	}
	b.files["SUMMARY.txt"] = sum.Bytes()
	dir := "verge-support-" + b.now.UTC().Format("20060102-150405")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	names := make([]string, 0, len(b.files))
	for name := range b.files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: dir + "/" + name, Size: int64(len(b.files[name])), Mode: 0o600,
			ModTime: b.now, Format: tar.FormatPAX}
		if err := w.WriteHeader(h); err != nil {
			return fmt.Errorf("make the bundle: %w", err)
		}
		if _, err := w.Write(b.files[name]); err != nil {
			return fmt.Errorf("make the bundle: %w", err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return fmt.Errorf("make the bundle: %w", err)
	}
	if out == "-" {
		_, err := b.a.out.Write(packed.Bytes())
		return err
	}
	out = cmp.Or(out, dir+".tar.gz")
	if err := atomicfile.Write(out, packed.Bytes(), 0o600); err != nil {
		return &userError{what: "the bundle cannot be written", why: err.Error(), next: "choose another file: -o FILE"}
	}
	for _, m := range b.missing {
		b.a.notef("missing: %s", m)
	}
	return b.a.printf("%s written: %d files, %d bytes", out, len(b.files), packed.Len())
}

// fileWord is a name as a part of a path.
func fileWord(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, s)
	return strings.Trim(cmp.Or(s, "server"), ".")
}
