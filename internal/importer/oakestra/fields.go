package oakestra

import (
	"sync"

	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// documentedOut is bandwidth_out in the spelling of the documentation.
const documentedOut = "bandwith_out" //nolint:misspell // that is how it is spelled there

const notOakestra = "is not a field of Oakestra, and not carried over"

// fields says what happens to the fields of an Oakestra descriptor of version v2.0, in the spelling
// of its schema and, where that differs, of its documentation.
var fields = report.Cover{
	"sla_version":                          "",
	"api_version":                          report.Ignored,
	"customerID":                           "~is not needed: who applies a descriptor is its owner",
	"args":                                 "is not carried over",
	"applications[].applicationID":         report.Ignored,
	"applications[].application_name":      "",
	"applications[].args":                  "is not carried over",
	"applications[].application_desc":      "is not carried over: Verge keeps no descriptions",
	"applications[].microservices":         "",
	"applications[].application_namespace": "",
	"applications[].?":                     notOakestra,
	"?":                                    notOakestra,
}

var microserviceCover = report.Cover{
	"microserviceID":                        "",
	"microservice_name":                     "",
	"microservice_namespace":                "",
	"virtualization":                        "",
	"memory":                                "",
	"vcpus":                                 "",
	"vcpu":                                  "",
	"vgpus":                                 "",
	"vgpu":                                  "",
	"vtpus":                                 "",
	"vtpu":                                  "",
	"bandwidth_in":                          "",
	"bandwidth_out":                         "",
	documentedOut:                           "",
	"storage":                               "",
	"code":                                  "",
	"cmd":                                   "",
	"environment":                           "",
	"port":                                  "",
	"one_shot":                              "",
	"volumes":                               "",
	"volumes[].volume_id":                   "",
	"volumes[].csi_driver":                  "",
	"volumes[].mount_path":                  "",
	"volumes[].config.host_path":            "",
	"volumes[].config.?":                    "is not carried over: it is for the driver of the volume",
	"volumes[].?":                           notOakestra,
	"arch":                                  "is not carried over: write architecture",
	"constraints":                           "",
	"constraints[].type":                    "",
	"constraints[].area":                    "",
	"constraints[].cluster":                 "",
	"constraints[].node":                    "",
	"constraints[].location":                "",
	"constraints[].threshold":               "",
	"constraints[].rigidness":               "",
	"constraints[].convergence_time":        "",
	"constraints[].needs":                   "",
	"constraints[].allowed":                 "",
	"constraints[].?":                       notOakestra,
	"connectivity":                          "",
	"connectivity[].target_microservice_id": "",
	"connectivity[].con_constraints[].type": "",
	"connectivity[].con_constraints[].threshold":        "",
	"connectivity[].con_constraints[].rigidness":        "",
	"connectivity[].con_constraints[].convergence_time": "",
	"connectivity[].con_constraints[].?":                notOakestra,
	"connectivity[].?":                                  notOakestra,
	"addresses.rr_ip":                                   "",
	"addresses.rr_ip_v6": "is not carried over: the IPv6 address of a service follows " +
		"from its name",
	"addresses.closest_ip":    "is not carried over: closest.NAME is the nearest instance",
	"addresses.closest_ip_v6": "is not carried over: closest.NAME is the nearest instance",
	"addresses.instances":     "is not carried over: 0.instance.NAME is a certain instance",
	"addresses.instance_ip":   "is not carried over: 0.instance.NAME is a certain instance",
	"addresses.?":             notOakestra,
	"instance_ip":             "is not carried over: 0.instance.NAME is a certain instance",
	"replicas": "is not a field of Oakestra, and not carried over: write " +
		"replicas into the descriptor",
	"?": notOakestra,
	"state": "is not carried over: an instance begins without state, or " +
		"with that of its volumes and objects",
	"added_files": "is not carried over: write the files' content into files, " +
		"or make objects of them (verge object put)",
	"args":                   "is not carried over",
	"privileged":             "",
	"sla_violation_strategy": "is not carried over: a service moves as rigidness says",
	"target_node": "is not carried over: workers are chosen by labels " +
		"(affinity.labels)",
}

var fieldTrie, microserviceTrie = fields.Lazy(), microserviceCover.Lazy()

// shape is the expected kind of a node and of its contents. Unnamed contents may be anything.
type shape struct {
	kind   source.Kind
	fields map[string]shape // of a mapping
	item   *shape           // of a list
}

// microserviceShape is the shape of a microservice, for fields that would otherwise be ignored if
// they had another shape. Numbers and lists of texts are checked where they are read.
var microserviceShape = sync.OnceValue(func() shape {
	text := shape{kind: source.Scalar}
	mapping := func(fields map[string]shape) shape { return shape{kind: source.Mapping, fields: fields} }
	listOf := func(fields map[string]shape) shape {
		item := mapping(fields)
		return shape{kind: source.List, item: &item}
	}
	return mapping(map[string]shape{
		"microserviceID": text, "virtualization": text, "code": text, "port": text,
		"addresses":   mapping(map[string]shape{"rr_ip": text}),
		"constraints": listOf(map[string]shape{"type": text, "area": text, "location": text, "node": text}),
		"connectivity": listOf(map[string]shape{
			"target_microservice_id": text, "con_constraints": listOf(map[string]shape{"type": text}),
		}),
		"volumes": listOf(map[string]shape{
			"volume_id": text, "csi_driver": text, "mount_path": text,
			"config": mapping(map[string]shape{"host_path": text}),
		}),
	})
})

// shaped says whether n, at a path, has the expected shape, and refuses it otherwise. Null, "" and
// empty nodes count as absent; in a list they are not items.
func (k *converter) shaped(n *source.Node, path []string, want shape) bool {
	if n.Kind != want.kind || n.Kind == source.Scalar && n.Value == nil {
		k.refuse(path, "is %s, and is to be %s", n.Describe(), want.kind)
		return false
	}
	ok := true
	for i, v := range n.Values {
		if n.Kind == source.List {
			ok = k.shaped(v, source.Extend(path, source.Index(i)), *want.item) && ok
		} else if f, known := want.fields[n.Keys[i].Name]; known && !v.Empty() {
			ok = k.shaped(v, source.Extend(path, n.Keys[i].Name), f) && ok
		}
	}
	return ok
}
