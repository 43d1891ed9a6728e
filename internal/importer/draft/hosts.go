package draft

import (
	"strings"

	"github.com/verge-edge/verge/api/pattern"
)

// ForHost says whether the name of a variable suggests that its value is a host.
func ForHost(variable string) bool {
	variable = strings.ToUpper(variable)
	return strings.Contains(variable, "HOST") || strings.Contains(variable, "ADDR") ||
		strings.Contains(variable, "SERVER")
}

// HostName finds a word in a text that may be a host name of Docker, with or without dots.
var HostName = pattern.Lazy(`[A-Za-z0-9_][-\w.]*`)

// PortAt says whether a port follows: :80.
func PortAt(text string, i int) bool {
	return i+1 < len(text) && text[i] == ':' && text[i+1] >= '0' && text[i+1] <= '9'
}
