package api

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api/pattern"
)

// Place is the point on the Earth that a Latency names, false where it names something
// else.
func (l Latency) Place() (Point, bool) {
	lat, lon, ok := strings.Cut(l.To, ",")
	if !ok {
		return Point{}, false
	}
	y, errY := strconv.ParseFloat(strings.TrimSpace(lat), 64)
	x, errX := strconv.ParseFloat(strings.TrimSpace(lon), 64)
	if errY != nil || errX != nil || !(y >= -90 && y <= 90 && x >= -180 && x <= 180) {
		return Point{}, false
	}
	return Point{y, x}, true
}

var hostRE = pattern.Lazy(`^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)+\.?$`)

// Address is the host that a Latency names, and its port, 0 for none; false where it
// names something else. A name has a dot in it, so that it cannot be a service's.
func (l Latency) Address() (host string, port int, ok bool) {
	return SplitTarget(l.To)
}

// SplitTarget is Address of a text.
func SplitTarget(s string) (host string, port int, ok bool) {
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil && a.Zone() == "" {
		return a.String(), 0, true
	}
	host = s
	if u, err := url.Parse(s); err == nil && u.Host != "" && u.User == nil {
		switch u.Scheme {
		case "http":
			host = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80"))
		case "https":
			host = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))
		}
	}
	if h, p, err := net.SplitHostPort(host); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return "", 0, false
		}
		if a, err := netip.ParseAddr(h); err == nil && a.Zone() == "" {
			return a.String(), int(n), true
		}
		host, port = h, int(n)
	}
	host = strings.ToLower(host)
	if len(host) > 253 || !hostRE().MatchString(host) || allDigits(strings.ReplaceAll(host, ".", "")) {
		return "", 0, false
	}
	return strings.TrimSuffix(host, "."), port, true
}

func allDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// Service is the service of the application that a Latency names, "" where it names
// something else.
func (l Latency) Service() string {
	if _, ok := l.Place(); ok || strings.ContainsAny(l.To, ".:,") {
		return ""
	}
	return l.To
}
