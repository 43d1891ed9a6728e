package httpmsg

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/verge-edge/verge/internal/proxy/http1/message"
)

// Headers between routers.
const (
	// HeaderTimeLeft says how many milliseconds the sender still waits for the head
	// of the answer. Clients may say it, and instances are told.
	HeaderTimeLeft = "Verge-Timeout"
	// HeaderRefused says why a router let a request not through to the instance, or
	// that the instance broke off.
	HeaderRefused = "Verge-Refused"
	// HeaderHold asks for 100 when a request has its place at the instance: before that
	// no more of its body is sent than can be sent again, so that it may still go
	// elsewhere.
	HeaderHold = "Verge-Hold"
)

const (
	// HeaderGRPCTimeout is the timeout of a call of gRPC.
	HeaderGRPCTimeout = "Grpc-Timeout"
	headerTrace       = "Traceparent"
)

// hopByHop headers are for one connection (RFC 9110, 7.6.1), with those that old
// programs take for it.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", HeaderHold,
}

// DropHopByHop removes them, and those that Connection names.
func DropHopByHop(h http.Header) {
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			if name = textproto.TrimString(name); name != "" {
				h.Del(name)
			}
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
}

// UpgradeProtocol is the protocol that a head asks to change to, "" for none.
func UpgradeProtocol(h http.Header) string {
	if len(h["Upgrade"]) == 0 || !httpguts.HeaderValuesContainsToken(h["Connection"], "Upgrade") {
		return ""
	}
	if httpguts.HeaderValuesContainsToken(h["Upgrade"], "h2c") ||
		httpguts.HeaderValuesContainsToken(h["Upgrade"], "h2") {
		return "" // its requests would pass the router unseen
	}
	return h["Upgrade"][0]
}

// OutgoingHeader is the head of a request as an instance gets it: as it came, but for what
// concerns one connection only.
func OutgoingHeader(req *http.Request) http.Header {
	h := req.Header.Clone()
	upgrade := UpgradeProtocol(h)
	trailers := httpguts.HeaderValuesContainsToken(h["Te"], "trailers")
	DropHopByHop(h)
	if trailers {
		h["Te"] = []string{"trailers"}
	}
	if upgrade != "" && req.ProtoMajor == 1 {
		h["Connection"] = []string{"Upgrade"}
		h["Upgrade"] = []string{upgrade}
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = []string{""} // else net/http would say its own
	}
	return h
}

// AddForwarded says who asks. Strangers cannot say it of themselves.
func AddForwarded(h http.Header, req *http.Request, strangers bool) {
	if strangers {
		DropForwarded(h)
	}
	client, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		client = req.RemoteAddr
	}
	proto := "http"
	if req.TLS != nil {
		proto = "https"
	}
	if _, told := h["X-Forwarded-Host"]; !told {
		h["X-Forwarded-Host"] = []string{req.Host}
	}
	if _, told := h["X-Forwarded-Proto"]; !told {
		h["X-Forwarded-Proto"] = []string{proto}
	}
	if before := h["X-Forwarded-For"]; len(before) > 0 {
		h["X-Forwarded-For"] = []string{strings.Join(before, ", ") + ", " + client}
	} else {
		h["X-Forwarded-For"] = []string{client}
	}
	node := client
	if strings.Contains(node, ":") {
		node = `"[` + node + `]"`
	}
	element := "for=" + node + ";host=" + quoted(req.Host) + ";proto=" + proto
	if before := h["Forwarded"]; len(before) > 0 {
		element = strings.Join(before, ", ") + ", " + element
	}
	h["Forwarded"] = []string{element}
}

// DropForwarded drops what only a proxy may say, in any spelling.
func DropForwarded(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "X-Forwarded-") || message.Disguised(name) {
			delete(h, name)
		}
	}
	delete(h, "X-Real-Ip")
	delete(h, "Forwarded")
}

// quoted is a value of Forwarded (RFC 7239): a token as it is, all else in quotes.
func quoted(s string) string {
	if httpguts.ValidHeaderFieldName(s) {
		return s
	}
	if strings.ContainsAny(s, `\"`) {
		s = escapes.Replace(s)
	}
	return `"` + s + `"`
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// AddTraceparent gives a request that belongs to no trace one of its own, which nobody records
// unless somebody on the way wants to.
func AddTraceparent(h http.Header) {
	if _, ok := h[headerTrace]; ok {
		return
	}
	var id [24]byte
	for i := 0; i < len(id); i += 8 {
		binary.LittleEndian.PutUint64(id[i:], rand.Uint64()|1) // all zeroes mean none
	}
	b := make([]byte, 0, 55)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, id[:16])
	b = append(b, '-')
	b = hex.AppendEncode(b, id[16:])
	b = append(b, "-00"...)
	h[headerTrace] = []string{string(b)}
}

// ClientDeadline is until when the client waits; zero if it does not say.
func ClientDeadline(h http.Header, now time.Time) time.Time {
	var until time.Time
	if v := h[HeaderTimeLeft]; len(v) == 1 {
		if ms, err := strconv.ParseInt(v[0], 10, 64); err == nil && ms >= 0 &&
			ms < int64(24*time.Hour/time.Millisecond) {
			until = now.Add(time.Duration(ms) * time.Millisecond)
		}
	}
	if v := h[HeaderGRPCTimeout]; len(v) == 1 {
		if d, ok := parseGRPCTimeout(v[0]); ok {
			if t := now.Add(d); until.IsZero() || t.Before(until) {
				until = t
			}
		}
	}
	return until
}

// grpcUnits of a timeout.
var grpcUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond,
	'n': time.Nanosecond,
}

// parseGRPCTimeout reads at most eight digits and a unit. More than a day is as good
// as none.
func parseGRPCTimeout(s string) (time.Duration, bool) {
	if len(s) < 2 || len(s) > 9 {
		return 0, false
	}
	unit, ok := grpcUnits[s[len(s)-1]]
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	if !ok || err != nil || time.Duration(n) > 24*time.Hour/unit {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

// SetTimeLeft tells whoever is next how much time is left. It is rounded up: who breaks off
// because of it does so after the deadline here, and is known to be late by that.
func SetTimeLeft(h http.Header, left time.Duration) {
	left = max(left, 0)
	up := func(unit time.Duration) int64 { return int64((left + unit - 1) / unit) }
	h[HeaderTimeLeft] = []string{strconv.FormatInt(up(time.Millisecond), 10)}
	if _, grpc := h[HeaderGRPCTimeout]; grpc {
		n, unit := up(time.Microsecond), "u"
		if n > 99_999_999 {
			n, unit = up(time.Millisecond), "m"
		}
		h[HeaderGRPCTimeout] = []string{strconv.FormatInt(n, 10) + unit}
	}
}
