package compose

import (
	"slices"
	"strings"

	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

var composePath = pattern.Lazy(`\b(?:services|volumes|networks|configs|secrets|name|jobs)(?:\.[-\w]+|\[\d+\])*`)

// refuse notes a complaint of compose-go about its input, at the path that it names, or at the
// path without which the complaint goes away.
func (c *converter) refuse(err error, given map[string]any) {
	text := strings.TrimPrefix(err.Error(), "compose: ")
	text = strings.TrimPrefix(text, "validating "+c.source.Name+": ")
	text = strings.ReplaceAll(text, "$$", "$")
	var path []string
	if m := composePath().FindString(text); strings.Contains(m, ".") {
		for _, s := range strings.Split(strings.ReplaceAll(m, "[", ".["), ".") {
			if s != "" && strings.Trim(s, "0123456789") == "" {
				s = "[" + s + "]"
			}
			path = append(path, s)
		}
	} else if m := composeService().FindStringSubmatch(text); m != nil {
		path = []string{"services", m[1]}
	} else if m := composeCycle().FindStringSubmatch(text); m != nil {
		path = []string{"services", m[1], "depends_on"}
	} else if m := composeCircular().FindStringSubmatch(text); m != nil {
		path, text = []string{"services", m[1], "extends"}, "it extends itself: "+
			strings.Join(strings.Fields(text), " ")
	} else if m := composeUnknown().FindStringSubmatch(text); m != nil {
		text = "no field at the top is called " + m[1]
		if i := slices.IndexFunc(c.doc.Root.Keys,
			func(k source.Key) bool { return strings.Contains(m[1], "'"+k.Name+"'") }); i >= 0 {
			path = []string{c.doc.Root.Keys[i].Name}
		}
	} else if path = c.culprit(given, err); path == nil {
		path = c.doc.Find(text)
	} else if found := c.doc.Find(text); len(found) > len(path) && slices.Equal(found[:len(path)], path) {
		path = found
	}
	text = strings.TrimSuffix(composeNumber().ReplaceAllString(composeDecoding().ReplaceAllString(text, ""),
		"$1 is not a number"), ": invalid compose project")
	if before, ok := strings.CutSuffix(text, " false schema"); ok {
		text = before + " is not a field"
	}
	if i := slices.Index(path, "environment"); i >= 0 {
		path, text = path[:i+1], "environment is not written as variables and values"
	}
	c.report.At(report.Refused, c.doc, path, "is not a valid compose file: %s", text)
}

// Messages of compose-go about a service, a cycle, and the way to what is wrong.
var (
	composeService  = pattern.Lazy(`service "([^"]+)"`)
	composeUnknown  = pattern.Lazy(`^\s*additional properties (.*) not allowed`)
	composeCircular = pattern.Lazy(`^Circular reference:\s+(\S+) in`)
	composeCycle    = pattern.Lazy(`dependency cycle detected: ([-\w.]+)`)
	composeNumber   = pattern.Lazy(
		`error while interpolating \S+: failed to cast to expected type: strconv\.\w+: parsing ("[^"]*"): .*`)
	composeDecoding = pattern.Lazy(`decoding failed due to the following error\(s\):\s*'[^']*' (time: )?`)
)
