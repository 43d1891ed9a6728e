package draft

import (
	"strings"

	"github.com/verge-edge/verge/api/pattern"
)

// ForHost says whether a variable is called as those are that have a host by itself.
func ForHost(variable string) bool {
	variable = strings.ToUpper(variable)
	return strings.Contains(variable, "HOST") || strings.Contains(variable, "ADDR") || strings.Contains(variable, "SERVER")
}

// HostName finds what may be a name of Docker in a text: a word, with dots or without.
var HostName = pattern.Lazy(`[A-Za-z0-9_][-\w.]*`)

// PortAt says whether a port follows: :80.
func PortAt(text string, i int) bool {
	return i+1 < len(text) && text[i] == ':' && text[i+1] >= '0' && text[i+1] <= '9'
}
