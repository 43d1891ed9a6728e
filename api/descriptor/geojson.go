package descriptor

import (
	"fmt"

	"github.com/verge-edge/verge/api/internal/words"
	"github.com/verge-edge/verge/internal/yamltree"
)

// geoJSON returns the corners that a polygon in GeoJSON (RFC 7946) stands for, as the
// list of [latitude, longitude] that a descriptor has otherwise: a geometry, or a feature
// with one. GeoJSON has the longitude first, and may have an altitude. It is nil where n
// is none, which has been said then.
func (d *decoder) geoJSON(n *yamltree.Node, at where) *yamltree.Node {
	const remedy = `write {type: Polygon, coordinates: [[[longitude, latitude], …]]}, or a list of [latitude, longitude]`
	field := func(n *yamltree.Node, name string) *yamltree.Node {
		for i, key := range n.Keys {
			if key.Text == name {
				return named(n.Values[i])
			}
		}
		return nil
	}
	kindOf := func(n *yamltree.Node) string {
		if t := field(n, "type"); t != nil && t.Kind == yamltree.Scalar {
			return t.Text
		}
		return ""
	}
	what := kindOf(n)
	if what == "Feature" {
		if g := field(n, "geometry"); g != nil && g.Kind == yamltree.Mapping {
			n, what = g, kindOf(g)
		}
	}
	if what != "Polygon" {
		found := "a mapping"
		if what != "" {
			found = words.Quote(what) + " of GeoJSON"
		}
		d.fail(n.Pos, at.path, "expected the corners of an area, found "+found, remedy)
		return nil
	}
	rings := field(n, "coordinates")
	switch {
	case rings == nil || rings.Kind != yamltree.List || len(rings.Values) == 0 || named(rings.Values[0]).Kind != yamltree.List:
		d.fail(n.Pos, at.path, "a polygon of GeoJSON has a list of rings as its coordinates", remedy)
		return nil
	case len(rings.Values) > 1:
		d.fail(rings.Values[1].Pos, at.path,
			fmt.Sprintf("has %d rings: areas with holes are not supported", len(rings.Values)),
			"leave out all rings but the first, or divide the area")
		return nil
	}
	ring := named(rings.Values[0])
	out := &yamltree.Node{Kind: yamltree.List, Pos: ring.Pos}
	for _, corner := range ring.Values {
		c := *named(corner)
		if c.Kind == yamltree.List && (len(c.Values) == 2 || len(c.Values) == 3) {
			c.Values = []*yamltree.Node{c.Values[1], c.Values[0]}
		}
		out.Values = append(out.Values, &c)
	}
	return out
}

// named is what an alias stands for.
func named(n *yamltree.Node) *yamltree.Node {
	if n.Kind == yamltree.Alias {
		return n.Target
	}
	return n
}
