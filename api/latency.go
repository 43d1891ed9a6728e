package api

import (
	"cmp"
	"fmt"
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

// latencies checks what a service must be near.
func (v *validator) latencies(path, name string, s *Service) {
	first := map[string]bool{}
	for i, l := range s.Latency {
		at := fmt.Sprintf("%s[%d]", path, i)
		if v.spoiled(at) || v.full() {
			continue
		}
		_, isPlace := l.Place()
		_, _, isAddress := l.Address()
		switch service := l.Service(); {
		case l.Max == 0 && l.Distance == 0:
			v.complain(at, "says neither max nor distance", "write max: 20ms, distance: 100km or both")
		case service != "" && service == name:
			v.complain(at+".to", "is the service itself", "name another; anti_affinity keeps its instances apart")
		case service != "":
			v.sibling(at+".to", service)
		case !isPlace && !isAddress:
			v.complain(at+".to", quote(l.To)+" is no service, place or address", "write a service of the application, latitude,longitude, or an address as 192.0.2.7, users.example.org or users.example.org:443")
		case isAddress && l.Distance > 0:
			v.complain(at+".distance", "is not known of an address", "use max, or name the place as latitude,longitude")
		}
		if first[l.To] {
			v.complain(at+".to", quote(l.To)+" is listed twice", "remove one of them")
		}
		first[l.To] = true
	}
}
