package descriptor

import (
	"fmt"

	"github.com/verge-edge/verge/api/internal/words"
)

// geoJSON returns the corners that a polygon in GeoJSON (RFC 7946) stands for, as the
// list of [latitude, longitude] that a descriptor has otherwise: a geometry, or a feature
// with one. GeoJSON has the longitude first, and may have an altitude. It is nil where n
// is none, which has been said then.
func (d *decoder) geoJSON(n *node, at where) *node {
	const remedy = `write {type: Polygon, coordinates: [[[longitude, latitude], …]]}, or a list of [latitude, longitude]`
	field := func(n *node, name string) *node {
		for i, key := range n.keys {
			if key.text == name {
				return named(n.values[i])
			}
		}
		return nil
	}
	kindOf := func(n *node) string {
		if t := field(n, "type"); t != nil && t.kind == scalarKind {
			return t.text
		}
		return ""
	}
	what := kindOf(n)
	if what == "Feature" {
		if g := field(n, "geometry"); g != nil && g.kind == mappingKind {
			n, what = g, kindOf(g)
		}
	}
	if what != "Polygon" {
		found := "a mapping"
		if what != "" {
			found = words.Quote(what) + " of GeoJSON"
		}
		d.fail(n.pos, at.path, "expected the corners of an area, found "+found, remedy)
		return nil
	}
	rings := field(n, "coordinates")
	switch {
	case rings == nil || rings.kind != listKind || len(rings.values) == 0 || named(rings.values[0]).kind != listKind:
		d.fail(n.pos, at.path, "a polygon of GeoJSON has a list of rings as its coordinates", remedy)
		return nil
	case len(rings.values) > 1:
		d.fail(rings.values[1].pos, at.path,
			fmt.Sprintf("has %d rings: areas with holes are not supported", len(rings.values)),
			"leave out all rings but the first, or divide the area")
		return nil
	}
	ring := named(rings.values[0])
	out := &node{kind: listKind, pos: ring.pos}
	for _, corner := range ring.values {
		c := *named(corner)
		if c.kind == listKind && (len(c.values) == 2 || len(c.values) == 3) {
			c.values = []*node{c.values[1], c.values[0]}
		}
		out.values = append(out.values, &c)
	}
	return out
}

// named is what an alias stands for.
func named(n *node) *node {
	if n.kind == aliasKind {
		return n.target
	}
	return n
}
