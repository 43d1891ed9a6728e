package api

import (
	"net/netip"
	"strings"

	"github.com/verge-edge/verge/api/internal/words"
	"github.com/verge-edge/verge/api/pattern"
)

// HostProblem says what keeps host, in lower case, from being the host of an ingress, and what to write
// instead; what is "" if nothing does.
func HostProblem(host string) (what, remedy string) {
	name, wild := strings.CutPrefix(host, "*.")
	what, remedy = hostProblem(name)
	if what == "" && wild && !strings.Contains(name, ".") && name != "localhost" {
		what, remedy = "would be every name of "+words.Quote(name), "write *.example.org"
	}
	return what, remedy
}

// CheckHost returns the problem of a host as an error.
func CheckHost(host string) error {
	what, remedy := HostProblem(host)
	if what == "" {
		return nil
	}
	return &ValueError{words.Quote(host) + " " + what, remedy}
}

var hostLabelRE = pattern.Lazy(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// hostProblem says what keeps host from being a DNS name.
func hostProblem(host string) (what, remedy string) {
	const alone = "write the name alone: app.example.org"
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return "is an address, not a host name", alone
	}
	switch {
	case strings.Contains(host, "://"):
		return "has a scheme", alone
	case strings.Contains(host, "/"):
		return "has a path", alone
	case strings.Contains(host, ":"):
		return "has a port", alone
	case strings.Contains(host, "*"):
		return "has a wildcard within", "write *.example.org, or each host name"
	case len(host) > 253:
		return "is longer than 253 characters", ""
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if !hostLabelRE().MatchString(label) {
			return "is not a host name", "write names of letters, digits and -, with dots between them: app.example.org"
		}
	}
	if strings.Trim(labels[len(labels)-1], "0123456789") == "" {
		return "is an address, not a host name", alone
	}
	return "", ""
}
