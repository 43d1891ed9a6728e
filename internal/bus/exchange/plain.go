package exchange

import (
	"encoding/json"
	"strconv"

	"github.com/verge-edge/verge/internal/wire"
)

// A cluster of ten thousand workers reads a thousand reports a second of which all but a
// few say that nothing has changed: some numbers and revisions. These plain ones are read
// and written here, without what encoding/json must ask of every field; everything else
// is left to it, and so is to say what is wrong.

// plainReport reads a report that says nothing but numbers and revisions, in the form in
// which it is written here; ok is false for every other.
func plainReport(data []byte) (r wire.Report, ok bool) {
	p := plain{left: data}
	return p.report()
}

// decodeReport is json.Unmarshal of a Report.
func decodeReport(data []byte) (wire.Report, error) {
	if r, ok := plainReport(data); ok {
		return r, nil
	}
	var r wire.Report
	err := json.Unmarshal(data, &r)
	return r, err
}

// encodeReply is json.Marshal of a ReportReply.
func encodeReply(r wire.ReportReply) ([]byte, error) {
	if r.Refused != "" || r.V < 0 || r.Interval < 0 || !isPlain(r.Want.Inc) || !isPlain(r.Ack.Inc) || r.Proof != nil || !r.Was.IsZero() {
		return json.Marshal(r)
	}
	b := make([]byte, 0, 160)
	b = strconv.AppendInt(append(b, `{"v":`...), int64(r.V), 10)
	b = appendRev(b, `,"w":`, r.Want)
	b = appendRev(b, `,"a":`, r.Ack)
	b = appendFlag(b, `,"ns":true`, r.NeedStatus)
	b = appendFlag(b, `,"hd":true`, r.Heeds)
	if r.Interval > 0 {
		b = strconv.AppendInt(append(b, `,"l":`...), int64(r.Interval), 10)
	}
	b = appendFlag(b, `,"rn":true`, r.Renew)
	b = appendFlag(b, `,"ng":true`, r.NoGateway)
	return append(b, '}'), nil
}

func appendFlag(b []byte, text string, set bool) []byte {
	if set {
		b = append(b, text...)
	}
	return b
}

func appendRev(b []byte, name string, r wire.Rev) []byte {
	if r.IsZero() {
		return b
	}
	b = append(append(b, name...), '{')
	if r.Inc != "" {
		b = append(append(append(b, `"i":"`...), r.Inc...), '"')
	}
	if r.N > 0 {
		if r.Inc != "" {
			b = append(b, ',')
		}
		b = strconv.AppendUint(append(b, `"n":`...), r.N, 10)
	}
	return append(b, '}')
}

// isPlain says whether a text is written in JSON as it is.
func isPlain(s string) bool {
	for i := range len(s) {
		if !plainByte(s[i]) {
			return false
		}
	}
	return true
}

func plainByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c == '-' || c == '_' || c == '.'
}

// plain reads JSON of the form in which it is written here. What it does not read may
// be right all the same.
type plain struct{ left []byte }

func (p *plain) take(s string) bool {
	if len(p.left) < len(s) || string(p.left[:len(s)]) != s {
		return false
	}
	p.left = p.left[len(s):]
	return true
}

// number reads a number without a sign, of at most 18 digits.
func (p *plain) number() (n uint64, ok bool) {
	i := 0
	for ; i < len(p.left) && p.left[i] >= '0' && p.left[i] <= '9'; i++ {
		if i >= 18 {
			return 0, false
		}
		n = 10*n + uint64(p.left[i]-'0')
	}
	if i == 0 || i > 1 && p.left[0] == '0' {
		return 0, false
	}
	p.left = p.left[i:]
	return n, true
}

// key reads a name of one letter and its colon.
func (p *plain) key() (byte, bool) {
	if len(p.left) < 4 || p.left[0] != '"' || p.left[2] != '"' || p.left[3] != ':' {
		return 0, false
	}
	c := p.left[1]
	p.left = p.left[4:]
	return c, true
}

func (p *plain) rev(r *wire.Rev) bool {
	if !p.take(`{"i":"`) {
		return false
	}
	i := 0
	for i < len(p.left) && plainByte(p.left[i]) {
		i++
	}
	inc := p.left[:i]
	if p.left = p.left[i:]; !p.take(`"`) {
		return false
	}
	var n uint64
	if p.take(`,"n":`) {
		var ok bool
		if n, ok = p.number(); !ok {
			return false
		}
	}
	r.Inc, r.N = string(inc), n
	return p.take(`}`)
}

func (p *plain) report() (r wire.Report, ok bool) {
	if !p.take(`{`) {
		return r, false
	}
	var seen [128]bool
	for first := true; ; first = false {
		if p.take(`}`) {
			return r, !first && len(p.left) == 0
		}
		if !first && !p.take(`,`) {
			return r, false
		}
		key, ok := p.key()
		if !ok || key >= 128 || seen[key] {
			return r, false
		}
		seen[key] = true
		var n uint64
		switch key {
		case 'h':
			ok = p.rev(&r.Have)
		case 'f':
			ok = p.rev(&r.From)
		case 't':
			ok = p.rev(&r.To)
		case 'v':
			n, ok = p.number()
			r.V = int(n)
		case 'x':
			n, ok = p.number()
			r.Next = int(n)
		case 'u':
			n, ok = p.number()
			r.At = int64(n)
		case 'l':
			r.Leaving = true
			ok = p.take(`true`)
		default:
			ok = false
		}
		if !ok {
			return r, false
		}
	}
}
