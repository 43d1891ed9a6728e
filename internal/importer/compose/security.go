package compose

import (
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/source"
)

// security converts what a container may do. With Docker it may write to the files of its
// image.
func (c *converter) security(name string, s types.ServiceConfig, out *api.Service) {
	if s.ReadOnly {
		out.Security.Root = api.RootReadOnly
	}
	draft.Writable(out)
	draft.CapabilityList(out, s.CapAdd, s.CapDrop, func(field string, i int, text string) {
		c.lost(name, text, "cap_"+field, source.Index(i))
	})
	for i, o := range s.SecurityOpt {
		key, value, _ := strings.Cut(strings.Replace(o, "=", ":", 1), ":")
		switch {
		case key == "no-new-privileges" && (value == "" || value == "true"): // the default
		case key == "no-new-privileges" && value == "false":
			out.Security.NewPrivileges = true
		case key == "seccomp" && value == "unconfined":
			out.Security.Seccomp = api.SeccompNone
		default:
			c.lost(name, source.Quote(key)+" is not carried over: Verge has nothing like it", "security_opt",
				source.Index(i))
		}
	}
	if rights := draft.Needs(out); rights != "" {
		c.said(name,
			"its namespace has to allow "+rights+": verge namespace standing "+api.DefaultNamespace+" allow="+
				api.RightWritableRoot+"+"+rights)
	}
}

// oneOff makes a job of a service that is to end: another waits for its completion, or its mode
// says so.
func (c *converter) oneOff(name string, s types.ServiceConfig, out *api.Service) {
	at := []string{"deploy", "mode"}
	if mode := s.Deploy; mode == nil || mode.Mode != "replicated-job" && mode.Mode != "global-job" {
		if at = nil; !c.awaited(name) {
			return
		}
	}
	retries := 0
	switch policy, times, _ := strings.Cut(s.Restart, ":"); policy {
	case "on-failure", "always", "unless-stopped":
		if retries = 1000; times != "" {
			n, _ := strconv.Atoi(times) // compose-go has checked it
			retries = max(min(n, 1000), 0)
		}
	}
	if m := out.Restart.MaxRestarts; m != nil {
		retries = *m
	}
	n := max(out.Replicas.Max, 1)
	out.Restart.Policy, out.Restart.MaxRestarts = "", nil
	draft.AsJob(out, &api.Job{Completions: n, Parallelism: n, Retries: &retries})
	c.said(name,
		"is a job: it runs until it has ended with exit code 0, and again "+strconv.Itoa(retries)+
			" times at most when it fails", at...)
}

// awaited says whether another service waits for this one to complete.
func (c *converter) awaited(name string) bool {
	for _, s := range c.project.Services {
		if d, ok := s.DependsOn[name]; ok && d.Condition == types.ServiceConditionCompletedSuccessfully {
			return true
		}
	}
	return false
}
