package kubernetes

import (
	"path"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
	"github.com/verge-edge/verge/internal/k8s"
)

// storage converts what a container mounts. Files come first: a volume at the same place would
// hide them.
func (g *group) storage(w *workload, c *container, out *api.Service) {
	volumes := map[string]int{}
	for i, v := range w.pod.Volumes {
		if _, twice := volumes[v.Name]; twice || v.Name == "" {
			g.refuse(w.object, source.Extend(w.path, "volumes", source.Index(i)),
				"Kubernetes would refuse it: %s is the name of another volume, or of none", source.Quote(v.Name))
		}
		manifest.OneOf(g.report, w.object, source.Extend(w.path, "volumes", source.Index(i)), "a volume", v.VolumeSource)
		volumes[v.Name] = i
	}
	if len(c.VolumeDevices) > 0 {
		g.lost(w.object, source.Extend(c.path, "volumeDevices"), "is not carried over: a volume of Verge is a directory")
	}
	var later []func()
	for i, m := range c.VolumeMounts {
		at := source.Extend(c.path, "volumeMounts", source.Index(i))
		if m.MountPath == "" || strings.Contains(m.MountPath, ":") {
			g.refuse(w.object, source.Extend(at, "mountPath"), "Kubernetes would refuse it: %s is not a path to mount at",
				source.Quote(m.MountPath))
			continue
		}
		if m.SubPathExpr != "" {
			g.lost(w.object, source.Extend(at, "subPathExpr"), "is not carried over: the volume is mounted without it")
		}
		if m.MountPropagation != nil && *m.MountPropagation != k8s.MountPropagationNone {
			g.lost(w.object, source.Extend(at, "mountPropagation"),
				"is not carried over: what is mounted below is seen by nobody else")
		}
		vi, ok := volumes[m.Name]
		if !ok {
			if t := w.claimTemplate(m.Name); t != nil {
				later = append(later, func() { g.named(w, c, at, m, m.Name, t.Spec.Resources.Requests, out) })
				continue
			}
			g.refuse(w.object, source.Extend(at, "name"), "Kubernetes would refuse it: there is no volume %s",
				source.Quote(m.Name))
			continue
		}
		v, vat := &w.pod.Volumes[vi], source.Extend(w.path, "volumes", source.Index(vi))
		switch {
		case v.ConfigMap != nil:
			g.configFiles(w, at, m, v.ConfigMap, out)
		case v.Secret != nil:
			g.secretFiles(w, at, m, v.Secret, out)
		case v.Projected != nil:
			g.projected(w, at, vat, m, v.Projected, out)
		default:
			later = append(later, func() { g.directory(w, c, at, vat, m, v, out) })
		}
	}
	for _, f := range later {
		f()
	}
}

// claimTemplate returns the template for a volume of each instance.
func (w *workload) claimTemplate(name string) *k8s.PersistentVolumeClaim {
	for i := range w.spec.VolumeClaimTemplates {
		if t := &w.spec.VolumeClaimTemplates[i]; t.Name == name {
			return t
		}
	}
	return nil
}

// directory mounts a directory.
func (g *group) directory(w *workload, c *container, at, vat []string, m k8s.VolumeMount, v *k8s.Volume,
	out *api.Service) {
	o := w.object
	put := func(volume api.Volume) {
		volume.Path = m.MountPath
		if why := draft.AddVolume(out, volume); why != "" {
			g.lost(o, at, "%s", why)
		}
	}
	switch {
	case v.EmptyDir != nil:
		size := draft.DefaultTmpfs
		if s := v.EmptyDir.SizeLimit; s != nil && s.Sign() > 0 {
			size = max(g.bytes(w, source.Extend(vat, "emptyDir", "sizeLimit"), *s), 4<<10)
		}
		put(api.Volume{Tmpfs: size})
		g.shared(w, c, at, m.Name)
		if v.EmptyDir.Medium != k8s.StorageMediumMemory || v.EmptyDir.SizeLimit == nil {
			g.said(o, vat, "is a directory in memory, of %s, which counts as the instance's: one on disk is kept by the "+
				"worker (volumes: [{name: …}])", size)
		}
	case v.PersistentVolumeClaim != nil:
		name := v.PersistentVolumeClaim.ClaimName
		if t := w.claimTemplate(v.Name); t != nil { // which takes precedence
			g.named(w, c, at, m, v.Name, t.Spec.Resources.Requests, out)
			return
		}
		var size k8s.ResourceList
		if claim := g.claims[name]; claim != nil {
			size = claim.spec.Resources.Requests
			for _, mode := range claim.spec.AccessModes {
				if mode == k8s.ReadWriteMany || mode == k8s.ReadOnlyMany {
					g.lost(claim.object, claim.object.At("spec", "accessModes"),
						"is not shared: each instance has a volume of its own")
				}
			}
			for _, other := range claim.users {
				if other != c.name {
					g.lost(o, at, "is not shared with %s: each instance has a volume of its own", other)
				}
			}
			claim.users = append(claim.users, c.name)
		}
		if out.Replicas.Max > 1 {
			g.lost(o, at, "is not shared: each of %d instances has a volume of its own", out.Replicas.Max)
		}
		m.ReadOnly = m.ReadOnly || v.PersistentVolumeClaim.ReadOnly
		g.named(w, c, at, m, name, size, out)
	case v.HostPath != nil:
		g.host(w, at, vat, m, v.HostPath, out)
	case v.Ephemeral != nil:
		var size k8s.ResourceList
		if t := v.Ephemeral.VolumeClaimTemplate; t != nil {
			size = t.Spec.Resources.Requests
		}
		g.said(o, vat, "is kept when the instance ends")
		g.named(w, c, at, m, v.Name, size, out)
	case v.DownwardAPI != nil:
		g.lost(o, vat, "is not carried over: an instance finds what Verge knows of it in VERGE_… of its environment")
	default:
		g.lost(o, vat, "is not carried over: a volume of Verge is a directory of the worker. Each instance has one of its "+
			"own instead, which begins empty")
		g.named(w, c, at, m, v.Name, nil, out)
	}
}

// shared notes a volume that several containers of a pod mount.
func (g *group) shared(w *workload, c *container, at []string, volume string) {
	var others []string
	for _, other := range w.containers {
		if other != c && slices.ContainsFunc(other.VolumeMounts, func(m k8s.VolumeMount) bool { return m.Name == volume }) {
			others = append(others, other.name)
		}
	}
	if len(others) > 0 {
		g.lost(w.object, at, "is not shared with %s: each instance has one of its own", report.List(others))
	}
	for i, init := range w.pod.InitContainers {
		if (init.RestartPolicy == nil || *init.RestartPolicy != k8s.ContainerRestartPolicyAlways) &&
			slices.ContainsFunc(init.VolumeMounts, func(m k8s.VolumeMount) bool { return m.Name == volume }) {
			g.lost(w.object, source.Extend(w.path, "initContainers", source.Index(i)),
				"what it puts into the volume %s is not there", volume)
		}
	}
}

// named mounts a persistent volume. Parts of one become separate volumes.
func (g *group) named(w *workload, c *container, at []string, m k8s.VolumeMount, name string, size k8s.ResourceList,
	out *api.Service) {
	v := api.Volume{Path: m.MountPath, Name: draft.Label(name), ReadOnly: m.ReadOnly}
	if m.SubPath != "" {
		v.Name = draft.Label(name + "-" + m.SubPath)
	}
	g.shared(w, c, at, m.Name)
	if why := draft.AddVolume(out, v); why != "" {
		g.lost(w.object, at, "%s", why)
		return
	}
	if q, ok := size[k8s.ResourceStorage]; ok {
		out.Resources.Disk += g.bytes(w, at, q)
	}
}

func (g *group) host(w *workload, at, vat []string, m k8s.VolumeMount, h *k8s.HostPathVolumeSource, out *api.Service) {
	o := w.object
	kind := k8s.HostPathUnset
	if h.Type != nil {
		kind = *h.Type
	}
	switch {
	case !path.IsAbs(h.Path):
		g.refuse(o, source.Extend(vat, "hostPath", "path"), "Kubernetes would refuse it: %s is not an absolute path",
			source.Quote(h.Path))
		return
	case strings.HasSuffix(h.Path, ".sock") || kind == k8s.HostPathSocket:
		g.lost(o, vat, "is not carried over: no instance may command its worker")
		return
	case kind != k8s.HostPathUnset && kind != k8s.HostPathDirectory && kind != k8s.HostPathDirectoryOrCreate:
		g.lost(o, vat,
			"is not carried over: what of a worker is mounted is a directory, devices are asked for by type (devices)")
		return
	}
	dir := path.Clean(h.Path)
	if m.SubPath != "" {
		dir = path.Join(dir, path.Clean("/"+m.SubPath))
	}
	if why := draft.AddVolume(out, api.Volume{Path: m.MountPath, Host: dir, ReadOnly: m.ReadOnly}); why != "" {
		g.lost(o, at, "%s", why)
		return
	}
	g.said(o, vat, "needs a directory %s on the worker, which its operator allows (verge worker --allow-host-path)",
		source.Quote(dir))
}
