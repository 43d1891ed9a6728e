package importer

import (
	"path"

	"github.com/verge-edge/verge/api"
)

// hostpathDriver is the one that Oakestra comes with: it mounts a directory of the worker.
const hostpathDriver = "csi.oakestra.io/hostpath"

// volumes are directories of the worker: by their path, or by a name. What another driver
// brings begins empty in Verge.
func (k *oakestra) volumes(s *node, in []string, out *api.Service) {
	list := s.child("volumes")
	if list.empty() {
		return
	}
	if list.kind != listKind {
		k.refuse(extend(in, "volumes"), "is no list")
		return
	}
	for i, v := range list.values {
		at := extend(in, "volumes", index(i))
		name, target := v.str("volume_id"), v.str("mount_path")
		if target == "" || name == "" {
			k.lost(at, "is not carried over: it has a volume_id and a mount_path")
			continue
		}
		if from := v.child("config").str("host_path"); from != "" {
			name = from
		}
		volume := api.Volume{Path: target}
		driver := v.str("csi_driver")
		if driver == hostpathDriver && path.IsAbs(name) {
			volume.Host = path.Clean(name)
		} else {
			volume.Name = label(name)
		}
		if why := addVolume(out, volume); why != "" {
			k.lost(at, "%s", why)
			continue
		}
		switch {
		case driver != hostpathDriver:
			k.lost(at, "the driver %s is not carried over: a volume of Verge is a directory of the worker, which begins empty", quote(driver))
		case volume.Host != "":
			k.said(at, "needs a directory %s on the worker, which its operator allows (verge worker --allow-host-path)", quote(volume.Host))
		default:
			k.said(at, "is a volume of each instance, %s, which begins empty", volume.Name)
		}
	}
}
