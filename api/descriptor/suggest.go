package descriptor

import (
	"reflect"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/shape"
	"github.com/verge-edge/verge/internal/yamltree"
)

// elsewhere has names that other tools use for what Verge calls otherwise.
var elsewhere = map[string]string{
	"name": "application", "app": "application", "service": "services",
	"environment": "env", "cmd": "command", "entrypoint": "command", "exec": "command",
	"arguments": "args", "instances": "replicas", "scale": "replicas", "count": "replicas",
	"healthcheck": "readiness", "health": "readiness", "readinessprobe": "readiness", "check": "readiness",
	"requests": "resources", "cpus": "cpu", "mem": "memory", "storage": "disk",
	"hostname": "host", "regions": "area", "region": "area", "zone": "area", "clusters": "cluster",
	"retries": "failures", "period": "interval", "stopsignal": "stop", "placement": "affinity",
	"arch": "architecture", "platform": "architecture", "geo": "location", "secrets": "env_secrets", "mounts": "volumes",
	"configs": "files", "nodeselector": "affinity", "livenessprobe": "liveness", "startupprobe": "startup",
	"backoff":       "delay",
	"loadbalancing": "policy",
}

// unknown reports a key that t does not have, with the closest that there is.
func (d *decoder) unknown(key *yamltree.Node, t reflect.Type, at where) {
	var names []string
	for i := range t.NumField() {
		names = append(names, shape.KeyOf(t.Field(i)))
	}
	message, remedy := "is not a field", "the fields here are "+strings.Join(names, ", ")
	meant := nearest(key.Text, names)
	if other := elsewhere[squeeze(key.Text)]; meant == "" && slices.Contains(names, other) {
		meant = other
	}
	switch {
	case meant != "":
		remedy = "did you mean " + meant + "?"
		d.spoil(at.field(meant).path)
	case squeeze(key.Text) == "virtualization" && slices.Contains(names, "runtime"):
		message, remedy = "is not a field",
			"it is called runtime here: write runtime: process, runtime: container or runtime: wasm"
	default:
		if far := d.belongs(key.Text, at); far != "" {
			remedy = "it belongs in " + far
		}
	}
	d.fail(key.Pos, at.entry(key.Text).path, message, remedy)
}

// belongs finds a field of that name elsewhere, as near to at as there is.
func (d *decoder) belongs(key string, at where) string {
	best, shared := "", -1
	for _, f := range shape.Fields() {
		outer := enclosing(f.Pattern)
		if f.Pattern[strings.LastIndexByte(f.Pattern, '.')+1:] != key {
			continue
		}
		common := 0
		for common < min(len(outer), len(at.pattern)) && outer[common] == at.pattern[common] {
			common++
		}
		if common > shared {
			best, shared = outer, common
		}
	}
	if best == "" && shared >= 0 {
		return "the top level of the file"
	}
	return strings.ReplaceAll(best, "*", "<name>")
}

// squeeze makes maxRestarts, max-restarts and max_restarts the same.
func squeeze(s string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s))
}

// nearest returns the name that is a typing mistake away from s, or "".
func nearest(s string, names []string) string {
	if len(s) > api.MaxNameLength {
		return ""
	}
	best, least := "", 1+min(2, len(s)/3)
	for _, name := range names[:min(len(names), 100)] {
		if d := distance(squeeze(s), squeeze(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance counts the insertions, deletions, substitutions and swaps of
// neighbours that make a into b.
func distance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
