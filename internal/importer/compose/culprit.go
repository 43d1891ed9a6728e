package compose

import (
	"maps"
	"slices"

	"github.com/verge-edge/verge/internal/importer/source"
)

// Bounds of the search for what compose-go complains about: how often it runs, and the size of
// the file, in bytes of text. A run takes at most a millisecond for what people write.
const (
	maxTrials        = 100
	maxTrialServices = 200
	maxTrialText     = 64 << 10
	maxTrialValues   = 5000
)

// culprit returns the path without which compose-go no longer makes a complaint that has no
// place; nil if not found.
func (c *converter) culprit(given map[string]any, complaint error) []string {
	services, _ := given["services"].(map[string]any)
	if len(services) > maxTrialServices || c.doc.Size > maxTrialValues || textSize(given) > maxTrialText {
		return nil
	}
	trials := 0
	complains := func(name string, service any) bool {
		trials++
		_, err := loadProject(c.source.Name, with(given, "services", map[string]any{name: copied(service)}),
			c.profiles())
		return err != nil && err.Error() == complaint.Error()
	}
	for _, name := range slices.Sorted(maps.Keys(services)) {
		s, _ := copied(services[name]).(map[string]any)
		delete(s, "depends_on") // on services that are left out here
		if !complains(name, s) {
			continue
		}
		path := c.path(name)
		trials = 0
		whole := func(part any) any { return part }
		for part := any(s); trials < maxTrials; {
			at, inner, around := "", any(nil), whole
			switch p := part.(type) {
			case map[string]any:
				for _, k := range slices.Sorted(maps.Keys(p)) {
					if trials >= maxTrials || complains(name, around(with(p, k, nil))) {
						continue
					}
					at, inner = k, p[k]
					whole = func(part any) any { return around(with(p, k, part)) }
					break
				}
			case []any:
				for i, item := range p {
					if trials >= maxTrials || !complains(name, around([]any{item})) {
						continue
					}
					at, inner = source.Index(i), item
					whole = func(part any) any { return around([]any{part}) }
					break
				}
			}
			if at == "" {
				break
			}
			path, part = append(path, at), inner
		}
		return path
	}
	return nil
}

// with returns a mapping with another value for a key, or without the key if value is nil.
func with(m map[string]any, key string, value any) map[string]any {
	out := maps.Clone(m)
	if out[key] = value; value == nil {
		delete(out, key)
	}
	return out
}

// copied returns a deep copy of a value.
func copied(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, item := range v {
			out[k] = copied(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = copied(item)
		}
		return out
	}
	return v
}
