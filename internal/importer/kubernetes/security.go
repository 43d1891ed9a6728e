package kubernetes

import (
	"strconv"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
	"github.com/verge-edge/verge/internal/k8s"
)

// rights converts what a container may do: its own settings take precedence over its pod's.
func (g *group) rights(w *workload, c *container, out *api.Service) {
	o, p := w.object, w.pod.SecurityContext
	at, podAt := source.Extend(c.path, "securityContext"), source.Extend(w.path, "securityContext")
	for field, on := range map[string]bool{"hostNetwork": w.pod.HostNetwork, "hostPID": w.pod.HostPID,
		"hostIPC": w.pod.HostIPC, "shareProcessNamespace": w.pod.ShareProcessNamespace != nil &&
			*w.pod.ShareProcessNamespace} {
		if on {
			g.lost(o, source.Extend(w.path, field), manifest.NoHost)
		}
	}
	for _, field := range []string{"serviceAccountName", "serviceAccount"} {
		if name := o.NodeAt(w.path).Str(field); name != "" && name != "default" {
			g.lost(o, source.Extend(w.path, field), manifest.NoAPI)
		}
	}
	if p != nil {
		g.podRights(w, podAt, p)
	}
	s := c.SecurityContext
	if s == nil {
		s = &k8s.SecurityContext{}
	}
	if s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem {
		out.Security.Root = api.RootReadOnly
	}
	draft.Writable(out)
	g.user(w, c, s, p, out)
	if caps := s.Capabilities; caps != nil {
		draft.CapabilityList(out, texts(caps.Add), texts(caps.Drop), func(field string, i int, text string) {
			g.lost(o, source.Extend(at, "capabilities", field, source.Index(i)), "%s", text)
		})
	}
	if s.Privileged != nil && *s.Privileged {
		g.lost(o, source.Extend(at, "privileged"),
			"is not carried over: no instance of Verge is privileged; security.add gives single capabilities")
	}
	if s.AllowPrivilegeEscalation != nil && *s.AllowPrivilegeEscalation {
		out.Security.NewPrivileges = true
	}
	profile, profileAt := s.SeccompProfile, source.Extend(at, "seccompProfile")
	if profile == nil && p != nil {
		profile, profileAt = p.SeccompProfile, source.Extend(podAt, "seccompProfile")
	}
	if profile != nil {
		switch profile.Type {
		case k8s.SeccompProfileTypeUnconfined:
			out.Security.Seccomp = api.SeccompNone
		case k8s.SeccompProfileTypeRuntimeDefault:
		default:
			g.lost(o, profileAt, "is not carried over: there is one list of system calls (seccomp: default)")
		}
	}
	for field, given := range map[string]bool{
		"seLinuxOptions": s.SELinuxOptions != nil, "windowsOptions": s.WindowsOptions != nil,
		"appArmorProfile": s.AppArmorProfile != nil, "procMount": s.ProcMount != nil,
	} {
		if given {
			g.lost(o, source.Extend(at, field), report.NoCounterpart)
		}
	}
	if rights := draft.Needs(out); rights != "" {
		g.said(o, at, "its namespace has to allow %s: verge namespace standing %s allow=%s+%s", rights, namespaceName(g.app),
			api.RightWritableRoot, rights)
	}
}

func namespaceName(app *api.Application) string {
	if app.Namespace == "" {
		return api.DefaultNamespace
	}
	return app.Namespace
}

func texts(list []k8s.Capability) (out []string) {
	for _, c := range list {
		out = append(out, string(c))
	}
	return out
}

// user converts the user that a container runs as.
func (g *group) user(w *workload, c *container, s *k8s.SecurityContext, p *k8s.PodSecurityContext, out *api.Service) {
	user, group, nonRoot := s.RunAsUser, s.RunAsGroup, s.RunAsNonRoot
	if p != nil {
		if user == nil {
			user = p.RunAsUser
		}
		if group == nil {
			group = p.RunAsGroup
		}
		if nonRoot == nil {
			nonRoot = p.RunAsNonRoot
		}
	}
	at := source.Extend(c.path, "securityContext")
	switch {
	case user != nil:
		if *user < 0 || group != nil && *group < 0 {
			g.refuse(w.object, at, "Kubernetes would refuse it: a user and a group are numbers from 0 on")
			return
		}
		out.User = strconv.FormatInt(*user, 10)
		if group != nil {
			out.User += ":" + strconv.FormatInt(*group, 10)
		}
	case group != nil:
		g.lost(w.object, source.Extend(at, "runAsGroup"),
			"is not carried over without runAsUser: the group is that of the image")
	case nonRoot != nil && *nonRoot:
		g.said(w.object, source.Extend(at, "runAsNonRoot"), "is not checked: the container runs as the user of its image")
	}
}

// podRights notes the settings for all containers of a pod.
func (g *group) podRights(w *workload, at []string, p *k8s.PodSecurityContext) {
	o := w.object
	if p.FSGroup != nil {
		g.said(o, source.Extend(at, "fsGroup"), "is not needed: files and volumes belong to the user of the container")
	}
	if len(p.SupplementalGroups) > 0 {
		g.lost(o, source.Extend(at, "supplementalGroups"), "are not carried over: a container has one group")
	}
	for i := range p.Sysctls {
		g.lost(o, source.Extend(at, "sysctls", source.Index(i)),
			"is not carried over: the kernel's settings are those of the worker")
	}
	for field, given := range map[string]bool{"seLinuxOptions": p.SELinuxOptions != nil,
		"windowsOptions": p.WindowsOptions != nil, "appArmorProfile": p.AppArmorProfile != nil} {
		if given {
			g.lost(o, source.Extend(at, field), report.NoCounterpart)
		}
	}
}
