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

// variableName is that of api: what an environment can have.
var variableName = pattern.Lazy(`^[!-<>-~]+$`)

// ValidEnv takes out the variables whose names Verge does not have; PORT is left for
// portVariables.
func ValidEnv(r *report.Report, d *source.Document, s *api.Service, at func(string) []string) {
	drop := func(k string) {
		delete(s.Env, k)
		delete(s.EnvSecrets, k)
	}
	for _, k := range slices.Concat(slices.Sorted(maps.Keys(s.Env)), slices.Sorted(maps.Keys(s.EnvSecrets))) {
		switch {
		case !variableName().MatchString(k):
			r.At(report.Lost, d, at(k), "%s is left out: the name of a variable has characters that can be seen, without =",
				source.Quote(k))
			drop(k)
		case strings.HasPrefix(k, "VERGE_"):
			r.At(report.Lost, d, at(k), "%s is left out: variables that begin with VERGE_ are set by Verge", k)
			drop(k)
		}
	}
}

// SecretValue says whether a variable is called as secrets are, or its value is an address
// with a password in it.
func SecretValue(name, value string) bool {
	return Secretive(name) || passwordRE().MatchString(value)
}

// passwordRE finds user:password@ in an address; what is replaced later is no password.
var passwordRE = pattern.Lazy(`://[^\s:/@,]*:[^\s:/@,$*<]+@`)

// Secretive says whether a variable is called as secrets are.
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
