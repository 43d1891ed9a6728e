package importer

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/k8s"
)

// storage is what a container mounts. Files come first: a volume that is in their way
// would hide them.
func (g *kubeGroup) storage(w *workload, c *container, out *api.Service) {
	volumes := map[string]int{}
	for i, v := range w.pod.Volumes {
		if _, twice := volumes[v.Name]; twice || v.Name == "" {
			g.refuse(w.object, extend(w.path, "volumes", index(i)), "Kubernetes would refuse it: %s is the name of another volume, or of none", quote(v.Name))
		}
		g.oneOf(w.object, extend(w.path, "volumes", index(i)), "a volume", v.VolumeSource)
		volumes[v.Name] = i
	}
	if len(c.VolumeDevices) > 0 {
		g.lost(w.object, extend(c.path, "volumeDevices"), "is not carried over: a volume of Verge is a directory")
	}
	var later []func()
	for i, m := range c.VolumeMounts {
		at := extend(c.path, "volumeMounts", index(i))
		if m.MountPath == "" || strings.Contains(m.MountPath, ":") {
			g.refuse(w.object, extend(at, "mountPath"), "Kubernetes would refuse it: %s is no path to mount at", quote(m.MountPath))
			continue
		}
		if m.SubPathExpr != "" {
			g.lost(w.object, extend(at, "subPathExpr"), "is not carried over: the volume is mounted without it")
		}
		if m.MountPropagation != nil && *m.MountPropagation != k8s.MountPropagationNone {
			g.lost(w.object, extend(at, "mountPropagation"), "is not carried over: what is mounted below is seen by nobody else")
		}
		vi, ok := volumes[m.Name]
		if !ok {
			if t := w.claimTemplate(m.Name); t != nil {
				later = append(later, func() { g.named(w, c, at, m, m.Name, t.Spec.Resources.Requests, out) })
				continue
			}
			g.refuse(w.object, extend(at, "name"), "Kubernetes would refuse it: there is no volume %s", quote(m.Name))
			continue
		}
		v, vat := &w.pod.Volumes[vi], extend(w.path, "volumes", index(vi))
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

// claimTemplate is the template for a volume of each instance.
func (w *workload) claimTemplate(name string) *k8s.PersistentVolumeClaim {
	for i := range w.spec.VolumeClaimTemplates {
		if t := &w.spec.VolumeClaimTemplates[i]; t.Name == name {
			return t
		}
	}
	return nil
}

// directory mounts what is one.
func (g *kubeGroup) directory(w *workload, c *container, at, vat []string, m k8s.VolumeMount, v *k8s.Volume, out *api.Service) {
	o := w.object
	put := func(volume api.Volume) {
		volume.Path = m.MountPath
		if why := addVolume(out, volume); why != "" {
			g.lost(o, at, "%s", why)
		}
	}
	switch {
	case v.EmptyDir != nil:
		size := DefaultTmpfs
		if s := v.EmptyDir.SizeLimit; s != nil && s.Sign() > 0 {
			size = max(g.bytes(w, extend(vat, "emptyDir", "sizeLimit"), *s), 4<<10)
		}
		put(api.Volume{Tmpfs: size})
		g.shared(w, c, at, m.Name)
		if v.EmptyDir.Medium != k8s.StorageMediumMemory || v.EmptyDir.SizeLimit == nil {
			g.said(o, vat, "is a directory in memory, of %s, which counts as the instance's: one on disk is kept by the worker (volumes: [{name: …}])", size)
		}
	case v.PersistentVolumeClaim != nil:
		name := v.PersistentVolumeClaim.ClaimName
		if t := w.claimTemplate(v.Name); t != nil { // which counts before
			g.named(w, c, at, m, v.Name, t.Spec.Resources.Requests, out)
			return
		}
		var size k8s.ResourceList
		if claim := g.claims[name]; claim != nil {
			size = claim.spec.Resources.Requests
			for _, mode := range claim.spec.AccessModes {
				if mode == k8s.ReadWriteMany || mode == k8s.ReadOnlyMany {
					g.lost(claim.object, claim.object.at("spec", "accessModes"), "is not shared: each instance has a volume of its own")
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
		g.lost(o, vat, "is not carried over: a volume of Verge is a directory of the worker. Each instance has one of its own instead, which begins empty")
		g.named(w, c, at, m, v.Name, nil, out)
	}
}

// shared notes a volume that several containers of a pod have.
func (g *kubeGroup) shared(w *workload, c *container, at []string, volume string) {
	var others []string
	for _, other := range w.containers {
		if other != c && slices.ContainsFunc(other.VolumeMounts, func(m k8s.VolumeMount) bool { return m.Name == volume }) {
			others = append(others, other.name)
		}
	}
	if len(others) > 0 {
		g.lost(w.object, at, "is not shared with %s: each instance has one of its own", list(others))
	}
	for i, init := range w.pod.InitContainers {
		if (init.RestartPolicy == nil || *init.RestartPolicy != k8s.ContainerRestartPolicyAlways) &&
			slices.ContainsFunc(init.VolumeMounts, func(m k8s.VolumeMount) bool { return m.Name == volume }) {
			g.lost(w.object, extend(w.path, "initContainers", index(i)), "what it puts into the volume %s is not there", volume)
		}
	}
}

// named mounts a volume that is kept. Those of parts of one are volumes by themselves.
func (g *kubeGroup) named(w *workload, c *container, at []string, m k8s.VolumeMount, name string, size k8s.ResourceList, out *api.Service) {
	v := api.Volume{Path: m.MountPath, Name: label(name), ReadOnly: m.ReadOnly}
	if m.SubPath != "" {
		v.Name = label(name + "-" + m.SubPath)
	}
	g.shared(w, c, at, m.Name)
	if why := addVolume(out, v); why != "" {
		g.lost(w.object, at, "%s", why)
		return
	}
	if q, ok := size[k8s.ResourceStorage]; ok {
		out.Resources.Disk += g.bytes(w, at, q)
	}
}

func (g *kubeGroup) host(w *workload, at, vat []string, m k8s.VolumeMount, h *k8s.HostPathVolumeSource, out *api.Service) {
	o := w.object
	kind := k8s.HostPathUnset
	if h.Type != nil {
		kind = *h.Type
	}
	switch {
	case !path.IsAbs(h.Path):
		g.refuse(o, extend(vat, "hostPath", "path"), "Kubernetes would refuse it: %s is no absolute path", quote(h.Path))
		return
	case strings.HasSuffix(h.Path, ".sock") || kind == k8s.HostPathSocket:
		g.lost(o, vat, "is not carried over: no instance may command its worker")
		return
	case kind != k8s.HostPathUnset && kind != k8s.HostPathDirectory && kind != k8s.HostPathDirectoryOrCreate:
		g.lost(o, vat, "is not carried over: what of a worker is mounted is a directory, devices are asked for by type (devices)")
		return
	}
	dir := path.Clean(h.Path)
	if m.SubPath != "" {
		dir = path.Join(dir, path.Clean("/"+m.SubPath))
	}
	if why := addVolume(out, api.Volume{Path: m.MountPath, Host: dir, ReadOnly: m.ReadOnly}); why != "" {
		g.lost(o, at, "%s", why)
		return
	}
	g.said(o, vat, "needs a directory %s on the worker, which its operator allows (verge worker --allow-host-path)", quote(dir))
}

// item is a file of a ConfigMap or a Secret.
type item struct {
	key, path string
	mode      *int32
}

func itemsOf(list []k8s.KeyToPath, all []string) (out []item) {
	for _, i := range list {
		out = append(out, item{i.Key, i.Path, i.Mode})
	}
	if len(list) == 0 {
		for _, k := range all {
			out = append(out, item{key: k, path: k})
		}
	}
	return out
}

// place is where an item stands, false where a subPath leaves it out.
func (i item) place(m k8s.VolumeMount) (string, bool) {
	if m.SubPath == "" {
		return path.Join(m.MountPath, path.Clean("/"+i.path)), true
	}
	sub, file := path.Clean("/"+m.SubPath), path.Clean("/"+i.path)
	if sub == file {
		return m.MountPath, true
	}
	rest, ok := strings.CutPrefix(file, sub+"/")
	return path.Join(m.MountPath, rest), ok
}

// fileModeOf is that of an item: of a secret that nobody else may read it is 0600 or less.
func fileModeOf(modes ...*int32) api.FileMode {
	for _, m := range modes {
		if m != nil && *m > 0 && *m <= 0o777 {
			return api.FileMode(*m)
		}
	}
	return 0o644
}

func (g *kubeGroup) configFiles(w *workload, at []string, m k8s.VolumeMount, v *k8s.ConfigMapVolumeSource, out *api.Service) {
	c := g.configs[v.Name]
	optional := v.Optional != nil && *v.Optional
	if c == nil {
		if !optional {
			g.lost(w.object, at, "the ConfigMap %s is not among what is imported: its files are not carried over", v.Name)
		} else {
			g.said(w.object, at, "the ConfigMap %s, which may be missing, is not among what is imported", v.Name)
		}
		return
	}
	c.used = true
	all := slices.Sorted(maps.Keys(c.spec.Data))
	all = append(all, slices.Sorted(maps.Keys(c.spec.BinaryData))...)
	put := 0
	for _, i := range itemsOf(v.Items, all) {
		to, ok := i.place(m)
		if !ok {
			continue
		}
		text, has := c.spec.Data[i.key]
		if data, binary := c.spec.BinaryData[i.key]; binary && !has {
			if text, has = string(data), true; len(data) <= maxContent && (readable(data) != nil || strings.ContainsFunc(text, unprintable)) {
				g.lost(w.object, at, "the key %s is not carried over: it is no text; make an object of it (verge object put), or put it into the image", quote(i.key))
				continue
			}
		}
		switch {
		case !has:
			if !optional {
				g.lost(w.object, at, "the ConfigMap %s has no key %s", v.Name, quote(i.key))
			}
			continue
		case len(text) > maxContent:
			g.lost(w.object, at, "the key %s is not carried over: it is larger than 256 KiB; make an object of it (verge object put)", quote(i.key))
			continue
		case strings.ContainsFunc(text, func(r rune) bool { return unprintable(r) && r != '\r' }):
			g.lost(w.object, at, "the key %s is not carried over: it has control characters", quote(i.key))
			continue
		}
		if !g.report.spend(len(text)) {
			g.report.tooMuch(w.object.doc, at)
			return
		}
		field := c.object.at("data", i.key)
		text = g.names(&workload{object: c.object}, field, text)
		if why := addFile(out, to, api.File{Content: literal(text), Mode: fileModeOf(i.mode, v.DefaultMode)}); why != "" {
			g.lost(w.object, at, "%s", why)
			continue
		}
		put++
	}
	if put == 0 {
		g.lost(w.object, at, "nothing of the ConfigMap %s is there", v.Name)
	} else if m.SubPath == "" {
		g.said(w.object, at, "%s at %s stand beside what the image has there, which Kubernetes would hide", count(put, "file"), quote(m.MountPath))
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (g *kubeGroup) secretFiles(w *workload, at []string, m k8s.VolumeMount, v *k8s.SecretVolumeSource, out *api.Service) {
	var keys []string
	s := g.secrets[v.SecretName]
	if s != nil {
		keys = s.keys
	}
	if s == nil && len(v.Items) == 0 {
		if file := path.Base(path.Clean("/" + m.SubPath)); m.SubPath != "" {
			keys = []string{file} // the key that it is called by
		} else {
			g.lost(w.object, at, "the Secret %s is not among what is imported, so that the names of its files are not known: write them into files", v.SecretName)
			return
		}
	}
	optional := v.Optional != nil && *v.Optional
	for _, i := range itemsOf(v.Items, keys) {
		to, ok := i.place(m)
		if !ok {
			continue
		}
		if s != nil && !slices.Contains(s.keys, i.key) || s == nil && optional {
			g.lost(w.object, at, "the key %s of the Secret %s is left out: it is not there", quote(i.key), v.SecretName)
			continue
		}
		name := g.secretOf(w, at, v.SecretName, i.key)
		if why := addFile(out, to, api.File{Secret: name, Mode: fileModeOf(i.mode, v.DefaultMode)}); why != "" {
			g.lost(w.object, at, "%s", why)
		}
	}
}

func (g *kubeGroup) projected(w *workload, at, vat []string, m k8s.VolumeMount, v *k8s.ProjectedVolumeSource, out *api.Service) {
	for i, s := range v.Sources {
		switch {
		case s.ConfigMap != nil:
			g.configFiles(w, at, m, &k8s.ConfigMapVolumeSource{LocalObjectReference: s.ConfigMap.LocalObjectReference, Items: s.ConfigMap.Items, Optional: s.ConfigMap.Optional, DefaultMode: v.DefaultMode}, out)
		case s.Secret != nil:
			g.secretFiles(w, at, m, &k8s.SecretVolumeSource{SecretName: s.Secret.Name, Items: s.Secret.Items, Optional: s.Secret.Optional, DefaultMode: v.DefaultMode}, out)
		default:
			g.lost(w.object, extend(vat, "projected", "sources", index(i)), "%s", cmp.Or(map[bool]string{true: noAPI}[s.ServiceAccountToken != nil], noCounterpart))
		}
	}
}
