package compose

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/internal/importer/report"
)

// Bounds of the input of compose-go, far above what people write. Without them a file of a few
// lines keeps it busy for hours: it follows every path through depends_on, makes a value for
// each port of a range, and splits a command in time that grows with the square of its length.
const (
	maxPorts   = 1000
	maxCommand = 32 << 10 // bytes of commands that are single strings: the root of the sum of their squares
	maxWays    = 100_000
)

// bounded says whether the services of a file, with variables replaced, are within the bounds.
func (c *converter) bounded(plain map[string]any) bool {
	services, _ := plain["services"].(map[string]any)
	fine, squares := true, 0
	for _, name := range slices.Sorted(maps.Keys(services)) {
		s, _ := services[name].(map[string]any)
		for _, field := range []string{"ports", "expose"} {
			if portCount(s[field]) > maxPorts {
				c.report.At(report.Refused, c.doc, c.path(name, field),
					"cannot be expressed: a service has at most %d ports here",
					maxPorts)
				fine = false
			}
		}
		for _, field := range []string{"command", "entrypoint"} {
			text, _ := s[field].(string)
			if squares += len(text) * len(text); squares > maxCommand*maxCommand {
				c.report.At(report.Refused, c.doc, c.path(name, field),
					"is too long for a text, %d bytes: write it as a list, or into a file", len(text))
				return false
			}
		}
	}
	return fine && c.acyclic(services) && c.inherited(services)
}

// inherited bounds what services inherit from those that they extend.
func (c *converter) inherited(services map[string]any) bool {
	sizes := map[string]int{}
	var size func(name string) int
	size = func(name string) int {
		if n, known := sizes[name]; known {
			return n
		}
		s, _ := services[name].(map[string]any)
		sizes[name] = 0 // for a cycle, which compose-go reports
		n := textSize(s)
		if base := extends(s); base != "" {
			n += size(base)
		}
		sizes[name] = min(n, report.MaxMade+1)
		return sizes[name]
	}
	for _, name := range slices.Sorted(maps.Keys(services)) {
		if s, _ := services[name].(map[string]any); extends(s) != "" && !c.report.Spend(size(extends(s))) {
			c.report.TooMuch(c.doc, c.path(name, "extends"))
			return false
		}
	}
	return true
}

// extends returns the name of the extended service, "" for none.
func extends(service map[string]any) string {
	switch e := service["extends"].(type) {
	case string:
		return e
	case map[string]any:
		name, _ := e["service"].(string)
		return name
	}
	return ""
}

// textSize is the number of bytes of text in a value.
func textSize(v any) int {
	n := 0
	switch v := v.(type) {
	case string:
		return len(v)
	case []any:
		for _, item := range v {
			n += textSize(item)
		}
	case map[string]any:
		for k, item := range v {
			n += len(k) + textSize(item)
		}
	}
	return n
}

// portCount is the number of ports in a list, including ranges.
func portCount(ports any) int {
	list, _ := ports.([]any)
	n := 0
	for _, p := range list {
		text, _ := p.(string)
		text, _, _ = strings.Cut(text[strings.LastIndexByte(text, ':')+1:], "/")
		from, to, _ := strings.Cut(text, "-")
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if n++; err1 == nil && err2 == nil && last > first {
			n += last - first
		}
	}
	return n
}

// acyclic makes sure that depends_on has no cycle, and few enough paths.
func (c *converter) acyclic(services map[string]any) bool {
	ways := map[string]int{} // paths from a service; 0 while they are counted
	var walk func(path []string) bool
	walk = func(path []string) bool {
		name := path[len(path)-1]
		ways[name] = 0
		n := 1
		for _, on := range waitsFor(services[name]) {
			if s, there := services[on]; !there || !c.wantsProfile(s) {
				continue // compose-go reports what is wrong
			}
			if i := slices.Index(path, on); i >= 0 {
				c.report.At(report.Refused, c.doc, c.path(on, "depends_on"),
					"is not a valid compose file: dependency cycle detected: %s",
					strings.Join(append(path[i:], on), " -> "))
				return false
			}
			if _, counted := ways[on]; !counted && !walk(append(path, on)) {
				return false
			}
			n = min(n+ways[on], maxWays+1)
		}
		ways[name] = n
		return true
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(services)) {
		if !c.wantsProfile(services[name]) {
			continue
		}
		if _, counted := ways[name]; !counted && !walk([]string{name}) {
			return false
		}
		if total += ways[name]; total > maxWays {
			c.report.At(report.Refused, c.doc, c.path(name, "depends_on"),
				"there are more than %d ways through what services depend on: leave out what follows from the rest",
				maxWays)
			return false
		}
	}
	return true
}

// waitsFor returns the services that one depends on.
func waitsFor(service any) []string {
	s, _ := service.(map[string]any)
	switch on := s["depends_on"].(type) {
	case map[string]any:
		return slices.Sorted(maps.Keys(on))
	case []any:
		out := make([]string, 0, len(on))
		for _, v := range on {
			out = append(out, fmt.Sprint(v))
		}
		return out
	}
	return nil
}

// wantsProfile says whether a service has no profile, or a requested one.
func (c *converter) wantsProfile(service any) bool {
	s, _ := service.(map[string]any)
	list, _ := s["profiles"].([]any)
	asked := c.profiles()
	return len(list) == 0 || slices.Contains(asked, "*") ||
		slices.ContainsFunc(list, func(p any) bool { return slices.Contains(asked, fmt.Sprint(p)) })
}
