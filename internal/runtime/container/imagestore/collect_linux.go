package imagestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
)

// Labels of images.
const (
	labelPulled = "verge.pulled" // it came from a registry
	labelUsed   = "verge.used"   // when it was last needed
)

// useNoted is how old the note of an image's last use may become: writing it costs a
// write to the disk.
const useNoted = 24 * time.Hour

// Collect removes images that nothing has needed for longer than age (0: none are), and,
// while more than high percent of containerd's disk are used (0: however many are, 1 to
// 100), others that nothing needs; before them what interrupted pulls have fetched, which
// otherwise stays for leaseAge. needed are the full names of those that are to stay,
// besides those of which there are containers. It returns what went, also with an error.
func (st *Store) Collect(ctx context.Context, needed map[string]bool, age time.Duration,
	high int) (gone []Gone, err error) {
	ctx = namespaces.WithNamespace(ctx, ctrd.Namespace)
	c, release, err := st.conn.Use(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	now := time.Now()
	list, err := st.kept(ctx, c, needed, now)
	if err != nil {
		return nil, err
	}
	removed := map[string]bool{}
	remove := func(g Gone) error {
		// With its snapshots and parts, before it is asked how much is free.
		if err := c.ImageService().Delete(ctx, g.Name, images.SynchronousDelete()); err != nil && !ctrd.IsNotFound(err) {
			return fmt.Errorf("remove image %s: %w", g.Name, st.conn.OrAway(err))
		}
		st.log.Info("an image is removed", "image", g.Name, "bytes", g.Size, "why", g.Why)
		removed[g.Name] = true
		gone = append(gone, g)
		return nil
	}
	for _, g := range expired(list, now, age) {
		if err := remove(g); err != nil {
			return gone, err
		}
	}
	halves, err := st.endHalves(ctx, c, leaseAge, true)
	gone = append(gone, halves...)
	if high <= 0 || err != nil {
		return gone, err
	}
	root := st.FilesOf(ctx, c)
	if used, err := UsedPercent(root); err != nil || used <= high {
		return gone, err
	}
	halves, err = st.endHalves(ctx, c, 0, true)
	gone = append(gone, halves...)
	if err != nil {
		return gone, err
	}
	for _, k := range spare(list) {
		used, err := UsedPercent(root)
		if err != nil || used <= high {
			return gone, err
		}
		if removed[k.name] {
			continue
		}
		if err := remove(Gone{k.name, k.size, fmt.Sprintf("%d %% of the disk are used, more than %d %%", used, high)}); err != nil {
			return gone, err
		}
	}
	return gone, nil
}

// endHalves lets go of what pulls that were interrupted more than older ago have fetched,
// and waits until it is gone where its room is needed now. Those that go on are left alone,
// and, for a day, those of other engines, of which nobody here knows whether they do.
func (st *Store) endHalves(ctx context.Context, c *containerd.Client, older time.Duration,
	now bool) (gone []Gone, err error) {
	list, err := c.LeasesService().List(ctx)
	if err != nil {
		return nil, st.conn.OrAway(err)
	}
	st.mu.Lock()
	pulling := map[string]bool{}
	for name := range st.pulls {
		pulling[leaseOf(name)] = true
	}
	st.mu.Unlock()
	var options []leases.DeleteOpt
	if now {
		options = append(options, leases.SynchronousDelete)
	}
	for _, l := range list {
		ours, age := l.Labels[ctrd.LabelEngine] == st.mark, time.Since(l.CreatedAt)
		if !strings.HasPrefix(l.ID, pullLease) || pulling[l.ID] || age < older || !ours && age < leaseAge {
			continue
		}
		size := st.sizeOfHalf(ctx, c, l)
		if err := c.LeasesService().Delete(ctx, l, options...); err != nil && !ctrd.IsNotFound(err) {
			return gone, fmt.Errorf("let go of what an interrupted pull has fetched: %w", st.conn.OrAway(err))
		}
		name := cmp.Or(l.Labels[labelPulled], l.ID)
		st.log.Info("what an interrupted pull has fetched is removed", "image", name, "bytes", size)
		if size > 0 {
			gone = append(gone, Gone{name, size, "its pull was interrupted, and nobody goes on with it"})
		}
	}
	return gone, nil
}

// sizeOfHalf is how many bytes a pull has fetched, as far as that is known.
func (st *Store) sizeOfHalf(ctx context.Context, c *containerd.Client, l leases.Lease) (sum int64) {
	list, err := c.LeasesService().ListResources(ctx, l)
	if err != nil {
		return 0
	}
	for _, r := range list {
		switch r.Type {
		case "content":
			if info, err := c.ContentStore().Info(ctx, digest.Digest(r.ID)); err == nil {
				sum += info.Size
			}
		case "ingests":
			if status, err := c.ContentStore().Status(ctx, r.ID); err == nil {
				sum += status.Offset
			}
		}
	}
	return sum
}

// kept lists the images, and notes of those that are needed that they are.
func (st *Store) kept(ctx context.Context, c *containerd.Client, needed map[string]bool,
	now time.Time) ([]kept, error) {
	list, err := c.ImageService().List(ctx)
	if err != nil {
		return nil, st.conn.OrAway(err)
	}
	users, err := st.imageUsers(ctx, c)
	if err != nil {
		return nil, err
	}
	st.mu.Lock()
	pulling := map[string]bool{}
	for name := range st.pulls {
		pulling[name] = true
	}
	st.mu.Unlock()
	var out []kept
	for _, i := range list {
		k := kept{name: i.Name, used: i.UpdatedAt, pulled: i.Labels[labelPulled] != "",
			inUse: needed[i.Name] || len(users[i.Name]) > 0 || pulling[i.Name]}
		if at, err := time.Parse(time.RFC3339, i.Labels[labelUsed]); err == nil {
			k.used = at
		}
		if k.inUse && now.Sub(k.used) > useNoted {
			i.Labels = map[string]string{labelUsed: now.UTC().Format(time.RFC3339)}
			if _, err := c.ImageService().Update(ctx, i, "labels."+labelUsed); err != nil {
				st.log.Debug("note the use of an image", "image", i.Name, "error", err)
			}
		}
		if size, err := i.Size(ctx, c.ContentStore(), platforms.Only(platforms.DefaultSpec())); err == nil {
			k.size = size
		}
		out = append(out, k)
	}
	return out, nil
}

// FilesOf is where containerd unpacks images, "" if that is not known.
func (st *Store) FilesOf(ctx context.Context, c *containerd.Client) string {
	answer, err := c.IntrospectionService().Plugins(ctx, "type==io.containerd.snapshotter.v1")
	if err != nil {
		return ""
	}
	for _, p := range answer.Plugins {
		if root := p.Exports["root"]; root != "" && p.InitErr == nil {
			return root
		}
	}
	return ""
}

// UsedPercent is how much of the disk is used, rounded up, as df counts it.
func UsedPercent(root string) (int, error) {
	if root == "" {
		return 0, errors.New("containerd does not say where it keeps images, so nobody knows how full that disk is")
	}
	var st unix.Statfs_t
	if err := unix.Statfs(root, &st); err != nil {
		return 0, fmt.Errorf("look at the disk of %s: %w", root, err)
	}
	used := st.Blocks - st.Bfree
	if used+st.Bavail == 0 {
		return 0, nil
	}
	return int((100*used + used + st.Bavail - 1) / (used + st.Bavail)), nil //nolint:gosec // at most 100
}
