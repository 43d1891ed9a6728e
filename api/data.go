package api

import (
	"cmp"
	"net"
	"net/url"
	"strings"
)

// MaxObjectName is how many bytes the name of an object has at most.
const MaxObjectName = 200

// IsObjectName says whether an object can have that name: 1 to MaxObjectName bytes, parts
// of letters, digits, '.', '_', '-' and '=', between slashes. No part is empty, begins or
// ends with a dot, or has two in a row.
func IsObjectName(name string) bool {
	if name == "" || len(name) > MaxObjectName || strings.Contains(name, "..") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || part[len(part)-1] == '.' {
			return false
		}
		for _, c := range []byte(part) {
			if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("._-=", c) < 0 {
				return false
			}
		}
	}
	return true
}

// DataHost is the host of an entry of Service.Data as workers measure it, "host" or
// "host:port"; "" where the entry is no URL of one.
func DataHost(entry string) string {
	u, err := url.Parse(entry)
	if err != nil || !strings.Contains(entry, "://") || u.Host == "" || u.User != nil {
		return ""
	}
	target := u.Hostname()
	if port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme]); port != "" {
		target = net.JoinHostPort(target, port)
	}
	if _, _, ok := SplitTarget(target); !ok {
		return ""
	}
	return target
}

// DataObjects are the objects of its namespace that a service says it reads.
func (s *Service) DataObjects() (names []string) {
	for _, entry := range s.Data {
		if IsObjectName(entry) {
			names = append(names, entry)
		}
	}
	return names
}

// DataHosts are the hosts that a service says it reads from, as workers measure them.
func (s *Service) DataHosts() (targets []string) {
	for _, entry := range s.Data {
		if target := DataHost(entry); target != "" {
			targets = append(targets, target)
		}
	}
	return targets
}
