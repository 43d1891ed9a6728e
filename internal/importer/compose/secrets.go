package compose

import (
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/importer/compose/dotenv"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// secret returns the name of the secret that a variable of a service becomes. Equal texts are
// the same secret, such as all ${DB_PASSWORD}. It is named after what it refers to, or after
// the variable.
func (c *converter) secret(service, variable, written, of string) string {
	if written != "${"+of+"}" {
		of = variable
	}
	name := c.secretName(written, of)
	if c.secrets[service] == nil {
		c.secrets[service] = map[string]string{}
	}
	c.secrets[service][variable] = name
	return name
}

// secretName returns the name of the secret for a text as written, named after of.
func (c *converter) secretName(written, of string) string {
	name := c.secretNames[written]
	if name == "" {
		name = c.secretLabels.Unique(of)
		c.secretNames[written] = name
	}
	return name
}

// hide keeps secret values out of a field. A command keeps the reference, which a shell
// replaces by a variable that becomes a secret.
func (c *converter) hide(v substituted, path []string) string {
	field := ""
	if path[0] == "services" {
		field = path[2]
	}
	if field != "command" && field != "entrypoint" && field != "healthcheck" {
		c.report.At(report.Refused, c.doc, path,
			"has ${%s} in it, which is called as a secret is and would stand in the descriptor: give it by "+
				"--env-file FILE if it may", v.hidden[0])
		return ""
	}
	for _, name := range v.hidden {
		secret := c.secret(path[1], name, "${"+name+"}", name)
		if c.inShell(path) {
			c.report.At(report.Said, c.doc, path, "the shell finds ${%s} as the secret %s: %s", name, secret,
				c.toSet(name, secret))
		} else {
			c.report.At(report.Lost, c.doc, path,
				"the value of ${%s} is not carried over into it, where everybody sees it "+
					"who can list processes: let the program read the variable, which is the secret %s; %s", name,
				secret,
				c.toSet(name, secret))
		}
	}
	return v.shown()
}

// toSet says how to set a secret, and where its value is.
func (c *converter) toSet(variable, secret string) string {
	where := ""
	if _, set := c.beside[variable]; set {
		where = ", with what " + dotenv.DotEnv + " has"
	}
	return "verge secret set " + secret + " --from-file FILE" + where
}

// inShell says whether a shell reads the text at path, of a command or a check.
func (c *converter) inShell(path []string) bool {
	service := c.doc.Root.Child("services").Child(path[1])
	n, at := service.Child(path[2]), len(path)-1
	if path[2] == "healthcheck" {
		n = n.Child("test")
		if n != nil && (n.Kind == source.Scalar || n.Kind == source.List && len(n.Values) > 0 &&
			n.Values[0].Text == "CMD-SHELL") {
			return true
		}
	}
	words := wordsOf(n, path[at])
	if path[2] == "command" {
		words = append(wordsOf(service.Child("entrypoint"), ""), words...)
	}
	return len(words) > 1 && shells[words[0][strings.LastIndexByte(words[0], '/')+1:]] &&
		slices.ContainsFunc(words[1:],
			func(w string) bool { return strings.HasPrefix(w, "-") && strings.HasSuffix(w, "c") })
}

var shells = map[string]bool{"sh": true, "bash": true, "ash": true, "dash": true, "zsh": true, "ksh": true}

// wordsOf returns the words of a command, up to the named item of a list.
func wordsOf(n *source.Node, item string) (out []string) {
	if n == nil {
		return nil
	}
	if n.Kind == source.Scalar {
		return strings.Fields(n.Text)
	}
	for i, v := range n.Values {
		if source.Index(i) == item {
			break
		}
		if v.Text != "CMD" || i > 0 {
			out = append(out, v.Text)
		}
	}
	return out
}
