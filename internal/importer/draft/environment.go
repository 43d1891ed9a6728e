package draft

import (
	"maps"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// variableName is the rule of api for names of variables.
var variableName = pattern.Lazy(`^[!-<>-~]+$`)

// ValidEnv removes the variables whose names Verge does not accept, except PORT, which
// PortVariables handles.
func ValidEnv(r *report.Report, d *source.Document, s *api.Service, at func(string) []string) {
	drop := func(k string) {
		delete(s.Env, k)
		delete(s.EnvSecrets, k)
	}
	for _, k := range slices.Concat(slices.Sorted(maps.Keys(s.Env)), slices.Sorted(maps.Keys(s.EnvSecrets))) {
		switch {
		case !variableName().MatchString(k):
			r.At(report.Lost, d, at(k),
				"%s is left out: the name of a variable has characters that can be seen, without =",
				source.Quote(k))
			drop(k)
		case strings.HasPrefix(k, "VERGE_"):
			r.At(report.Lost, d, at(k), "%s is left out: variables that begin with VERGE_ are set by Verge", k)
			drop(k)
		}
	}
}

// SecretValue says whether a variable is named like a secret, or its value is an address with a
// password.
func SecretValue(name, value string) bool {
	return Secretive(name) || passwordRE().MatchString(value)
}

// passwordRE finds user:password@ in an address; a reference is no password.
var passwordRE = pattern.Lazy(`://[^\s:/@,]*:[^\s:/@,$*<]+@`)

// Secretive says whether a variable is named like a secret.
func Secretive(name string) bool {
	name = strings.ToUpper(name)
	if strings.HasSuffix(name, "_FILE") || name == "PWD" || name == "OLDPWD" {
		return false
	}
	if strings.HasSuffix(name, "_PW") {
		return true
	}
	for _, word := range []string{"PASS", "PWD", "SECRET", "TOKEN", "CREDENTIAL", "PRIVATE", "APIKEY", "API_KEY",
		"ACCESS_KEY", "DSN", "FERNET", "ENCRYPTION_KEY", "MASTER_KEY", "SIGNING_KEY"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
