package oakestra

import (
	"path"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/source"
)

// hostpathDriver is the one that Oakestra comes with: it mounts a directory of the worker.
const hostpathDriver = "csi.oakestra.io/hostpath"

// volumes are directories of the worker: by their path, or by a name. What another driver
// brings begins empty in Verge.
func (k *converter) volumes(s *source.Node, in []string, out *api.Service) {
	list := s.Child("volumes")
	if list.Empty() {
		return
	}
	if list.Kind != source.List {
		k.refuse(source.Extend(in, "volumes"), "is not a list")
		return
	}
	for i, v := range list.Values {
		at := source.Extend(in, "volumes", source.Index(i))
		name, target := v.Str("volume_id"), v.Str("mount_path")
		if target == "" || name == "" {
			k.lost(at, "is not carried over: it has a volume_id and a mount_path")
			continue
		}
		if from := v.Child("config").Str("host_path"); from != "" {
			name = from
		}
		volume := api.Volume{Path: target}
		driver := v.Str("csi_driver")
		if driver == hostpathDriver && path.IsAbs(name) {
			volume.Host = path.Clean(name)
		} else {
			volume.Name = draft.Label(name)
		}
		if why := draft.AddVolume(out, volume); why != "" {
			k.lost(at, "%s", why)
			continue
		}
		switch {
		case driver != hostpathDriver:
			k.lost(at, "the driver %s is not carried over: a volume of Verge is a directory of the worker, which "+
				"begins empty",
				source.Quote(driver))
		case volume.Host != "":
			k.said(at, "needs a directory %s on the worker, which its operator allows (verge worker --allow-host-path)",
				source.Quote(volume.Host))
		default:
			k.said(at, "is a volume of each instance, %s, which begins empty", volume.Name)
		}
	}
}
