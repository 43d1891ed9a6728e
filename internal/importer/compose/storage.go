package compose

import (
	"path"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// storage converts volumes, configs and secrets.
func (c *converter) storage(name string, s types.ServiceConfig, out *api.Service) {
	// Files come first: a volume at the same place would hide them.
	for i, ref := range s.Secrets {
		target := ref.Target
		if target == "" {
			target = ref.Source
		}
		if !strings.HasPrefix(target, "/") {
			target = "/run/secrets/" + target
		}
		secret := c.secretNames["secrets."+ref.Source]
		if why := draft.AddFile(out, target, api.File{Secret: secret, Mode: mode(ref.Mode, 0o444)}); why != "" {
			c.lost(name, why, "secrets", source.Index(i))
			continue
		}
		c.owner(name, "secrets", i, ref.UID, ref.GID)
		c.report.At(report.Said, c.doc, []string{"secrets", ref.Source},
			"the secret %s is to be set: verge secret set %s --from-file FILE", secret, secret)
	}
	for i, ref := range s.Configs {
		c.owner(name, "configs", i, ref.UID, ref.GID)
		c.config(name, i, ref, out)
	}
	for i, v := range s.Volumes {
		if why := c.volume(name, i, v, out); why != "" {
			c.lost(name, why, "volumes", source.Index(i))
		}
	}
	if size := c.bytes(name, s.ShmSize, "shm_size"); size > 0 {
		if why := draft.AddVolume(out, api.Volume{Path: "/dev/shm", Tmpfs: size}); why != "" {
			c.lost(name, why, "shm_size")
		} else {
			c.said(name, "is the size of /dev/shm, which counts as the instance's memory", "shm_size")
		}
	}
	for i, t := range s.Tmpfs {
		at, options, _ := strings.Cut(t, ":")
		size, strange := draft.DefaultTmpfs, ""
		for _, o := range strings.Split(options, ",") {
			if v, ok := strings.CutPrefix(o, "size="); ok {
				var u types.UnitBytes
				if err := u.DecodeMapstructure(v); err == nil && u > 0 && api.Bytes(u) <= api.MaxBytes {
					size = api.Bytes(u)
				} else {
					strange = o
				}
			}
		}
		field := []string{"tmpfs"}
		if n := c.doc.Root.Child("services").Child(name).Child("tmpfs"); n != nil && n.Kind == source.List {
			field = append(field, source.Index(i))
		}
		if why := draft.AddVolume(out, api.Volume{Path: at, Tmpfs: size}); why != "" {
			c.lost(name, why, field...)
		} else if strange != "" {
			c.lost(name,
				source.Quote(strange)+" is not carried over: it is not an amount of memory that can be given here; "+
					"it gets "+
					size.String(), field...)
		} else if !strings.Contains(options, "size=") {
			c.said(name, "gets "+size.String()+", as its size is not stated", field...)
		}
	}
}

// owner notes that the owner of a file is lost.
func (c *converter) owner(name, field string, i int, uid, gid string) {
	if uid != "" || gid != "" {
		c.lost(name, "its uid and gid are not carried over: files belong to the user that the container starts as",
			field,
			source.Index(i))
	}
}

// volume adds a volume; the text says why it could not.
func (c *converter) volume(name string, i int, v types.ServiceVolumeConfig, out *api.Service) string {
	switch v.Type {
	case "tmpfs":
		size := draft.DefaultTmpfs
		if v.Tmpfs != nil && v.Tmpfs.Size > 0 {
			size = api.Bytes(v.Tmpfs.Size)
		}
		return draft.AddVolume(out, api.Volume{Path: v.Target, Tmpfs: size})
	case "volume":
		if v.Source == "" {
			return "is not carried over: a volume without name does not outlive the instance; what is written " +
				"there is gone when it ends"
		}
		if others := c.users(v.Source); len(others) > 1 {
			c.lost(name,
				"is not shared: each instance of "+report.List(others)+" has a volume "+draft.Label(v.Source)+
					" of its own",
				"volumes", source.Index(i))
		}
		if v.Volume != nil && v.Volume.Subpath != "" {
			c.lost(name, "the subpath is not carried over: all of the volume is there", "volumes", source.Index(i))
		}
		return draft.AddVolume(out, api.Volume{Path: v.Target, Name: draft.Label(v.Source), ReadOnly: v.ReadOnly})
	case "bind":
		if v.Source == "/var/run/docker.sock" || v.Source == "/run/docker.sock" {
			return "is not carried over: there is no Docker, and no instance may command its worker"
		}
		if path.IsAbs(v.Source) {
			c.said(name,
				"needs a directory "+source.Quote(v.Source)+
					" on the worker, which its operator allows (verge worker --allow-host-path)", "volumes",
				source.Index(i))
			return draft.AddVolume(out, api.Volume{Path: v.Target, Host: path.Clean(v.Source), ReadOnly: v.ReadOnly})
		}
		text, why := c.text(v.Source)
		if why != "" {
			return "is not carried over: " + why +
				"; a worker has no folder of this project, so put what is in it into the image, into files, or " +
				"below a host path"
		}
		if why := draft.AddFile(out, v.Target,
			c.file(v.Source, text, 0o644, c.path(name, "volumes", source.Index(i)))); why != "" {
			return why
		}
		if !v.ReadOnly {
			c.lost(name, "is carried over as it is now: what an instance writes to it stays with the instance",
				"volumes",
				source.Index(i))
		}
		return ""
	}
	return "is not carried over: Verge has no volume of type " + source.Quote(v.Type)
}

// users returns the services that have a volume.
func (c *converter) users(volume string) (out []string) {
	for name, s := range c.project.Services {
		if slices.ContainsFunc(s.Volumes,
			func(v types.ServiceVolumeConfig) bool { return v.Type == "volume" && v.Source == volume }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
