package descriptor

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// isJSON says whether source is a JSON object. JSON is read by the JSON decoder,
// because YAML parsers do not know its surrogate pairs (\ud83d\ude00).
func isJSON(source []byte) bool {
	trimmed := bytes.TrimLeft(source, " \t\r\n")
	return len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(source)
}

// parseJSON returns the tree of a source that isJSON.
func parseJSON(source []byte, r *report) *node {
	d := json.NewDecoder(bytes.NewReader(source))
	d.UseNumber()
	p := &jsonParser{source: source, decoder: d, pos: pos{1, 1}}
	n, err := p.value(0)
	if err != nil {
		r.fail(p.pos, "", "is not valid JSON: "+err.Error(), "")
		return nil
	}
	if n == nil {
		r.fail(p.pos, "", "is nested more than 32 levels deep", "no field of a descriptor is that deep")
	}
	return n
}

// jsonParser builds nodes from tokens. pos is the place of source[offset].
type jsonParser struct {
	source  []byte
	decoder *json.Decoder
	offset  int
	pos     pos
}

// next returns the next token and where it starts.
func (p *jsonParser) next() (json.Token, pos, error) {
	token, err := p.decoder.Token()
	if err != nil {
		return nil, p.pos, err
	}
	p.skip(func(c byte) bool { return bytes.IndexByte([]byte(" \t\r\n,:"), c) >= 0 })
	start := p.pos
	end := int(p.decoder.InputOffset())
	p.skip(func(byte) bool { return p.offset < end })
	return token, start, nil
}

// skip moves over the bytes that while accepts and counts lines and characters.
func (p *jsonParser) skip(while func(byte) bool) {
	for p.offset < len(p.source) && while(p.source[p.offset]) {
		switch c := p.source[p.offset]; {
		case c == '\n':
			p.pos = pos{p.pos.line + 1, 1}
		case utf8.RuneStart(c):
			p.pos.column++
		}
		p.offset++
	}
}

// value reads one value; nil without an error means that it is too deep.
func (p *jsonParser) value(depth int) (*node, error) {
	token, at, err := p.next()
	if err != nil {
		return nil, err
	}
	if depth > maxDepth {
		return nil, nil
	}
	switch t := token.(type) {
	case json.Delim:
		n := &node{kind: listKind, pos: at}
		if t == '{' {
			n.kind = mappingKind
		}
		for p.decoder.More() {
			if t == '{' {
				key, err := p.value(depth + 1)
				if key == nil || err != nil {
					return nil, err
				}
				n.keys = append(n.keys, key)
			}
			item, err := p.value(depth + 1)
			if item == nil || err != nil {
				return nil, err
			}
			n.values = append(n.values, item)
		}
		_, _, err := p.next() // the closing bracket
		return n, err
	case string:
		return &node{pos: at, text: t}, nil
	case json.Number:
		return &node{pos: at, text: t.String(), plain: true}, nil
	case bool:
		if t {
			return &node{pos: at, text: "true", plain: true}, nil
		}
		return &node{pos: at, text: "false", plain: true}, nil
	default:
		return &node{kind: nullKind, pos: at}, nil
	}
}
