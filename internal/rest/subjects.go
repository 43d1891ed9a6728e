package rest

import (
	"strings"

	"github.com/verge-edge/verge/internal/access"
)

// What the audit log says of inputs whose object is not in the path.

func (in *applyInput) rehearsal() bool { return in.DryRun }

func (in *tokenInput) subject() (on, detail string) {
	if in.Body.Cluster != "" {
		return "cluster/" + in.Body.Cluster, "token of kind " + in.Body.Kind
	}
	if in.Body.Plugin != "" {
		return "plugin/" + in.Body.Plugin, "token of kind " + in.Body.Kind
	}
	if in.Body.Gateway {
		return "token", "of kind " + in.Body.Kind + ", which may be a gateway"
	}
	return "token", "of kind " + in.Body.Kind
}

func (in *pluginInput) subject() (on, detail string) { return "plugin/" + in.Plugin, "" }

func (in *tokenIDInput) subject() (on, detail string) {
	return "token/" + strings.TrimPrefix(in.Token, "token/"), ""
}

func (in *joinInput) subject() (on, detail string) { return "node/" + in.Body.Name, "" }

func (in *createNamespaceInput) subject() (on, detail string) {
	return string(access.Namespace) + "/" + in.Body.Name, ""
}

func (in *createUserInput) subject() (on, detail string) {
	return userSubject(in.Body.Name), rolesText(in.Body.Roles)
}

func (in *userInput) subject() (on, detail string) { return userSubject(in.User), "" }

func (in *rotateInput) subject() (on, detail string) { return userSubject(in.User), "" }

func (in *rolesInput) subject() (on, detail string) {
	return userSubject(in.User), rolesText(in.Body)
}

func userSubject(name string) string { return string(access.User) + "/" + name }

// The program alone: its arguments may be secrets.
func (in *execInput) subject() (on, detail string) {
	if len(in.Body.Command) > 0 {
		detail = in.Body.Command[0]
	}
	return string(access.Instance) + "/" + in.ID, detail
}

func (in *dropInput) subject() (on, detail string) {
	if in.Service != "" {
		detail = "service " + in.Service
	}
	return string(access.Application) + "/" + in.App, detail
}

func (in *conflictInput) subject() (on, detail string) { return "conflict/" + in.ID, "" }

func (in *caInput) subject() (on, detail string) {
	detail = in.Body.Step
	if in.Body.Force {
		detail += " by force"
	}
	return "ca", detail
}

func (in *renewInput) subject() (on, detail string) { return "node/" + in.Body.Name, "" }

func (in *leaveInput) subject() (on, detail string) {
	if in.Body.Force {
		detail = "by force"
	}
	return "node/" + in.Body.Name, detail
}
