package importer

import (
	"strconv"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/k8s"
)

// rights are what a container may do: what it says itself counts before its pod.
func (g *kubeGroup) rights(w *workload, c *container, out *api.Service) {
	o, p := w.object, w.pod.SecurityContext
	at, podAt := extend(c.path, "securityContext"), extend(w.path, "securityContext")
	for field, on := range map[string]bool{"hostNetwork": w.pod.HostNetwork, "hostPID": w.pod.HostPID, "hostIPC": w.pod.HostIPC, "shareProcessNamespace": w.pod.ShareProcessNamespace != nil && *w.pod.ShareProcessNamespace} {
		if on {
			g.lost(o, extend(w.path, field), noHost)
		}
	}
	for _, field := range []string{"serviceAccountName", "serviceAccount"} {
		if name := o.nodeAt(w.path).str(field); name != "" && name != "default" {
			g.lost(o, extend(w.path, field), noAPI)
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
	writable(out)
	g.user(w, c, s, p, out)
	if caps := s.Capabilities; caps != nil {
		capabilityList(out, texts(caps.Add), texts(caps.Drop), func(field string, i int, text string) {
			g.lost(o, extend(at, "capabilities", field, index(i)), "%s", text)
		})
	}
	if s.Privileged != nil && *s.Privileged {
		g.lost(o, extend(at, "privileged"), "is not carried over: no instance of Verge is privileged; security.add gives single capabilities")
	}
	if s.AllowPrivilegeEscalation != nil && *s.AllowPrivilegeEscalation {
		out.Security.NewPrivileges = true
	}
	profile, profileAt := s.SeccompProfile, extend(at, "seccompProfile")
	if profile == nil && p != nil {
		profile, profileAt = p.SeccompProfile, extend(podAt, "seccompProfile")
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
		"seLinuxOptions": s.SELinuxOptions != nil, "windowsOptions": s.WindowsOptions != nil, "appArmorProfile": s.AppArmorProfile != nil, "procMount": s.ProcMount != nil,
	} {
		if given {
			g.lost(o, extend(at, field), noCounterpart)
		}
	}
	if rights := needs(out); rights != "" {
		g.said(o, at, "its namespace has to allow %s: verge namespace standing %s allow=%s+%s", rights, namespaceName(g.app), api.RightWritableRoot, rights)
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

// user is as whom a container runs.
func (g *kubeGroup) user(w *workload, c *container, s *k8s.SecurityContext, p *k8s.PodSecurityContext, out *api.Service) {
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
	at := extend(c.path, "securityContext")
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
		g.lost(w.object, extend(at, "runAsGroup"), "is not carried over without runAsUser: the group is that of the image")
	case nonRoot != nil && *nonRoot:
		g.said(w.object, extend(at, "runAsNonRoot"), "is not checked: the container runs as the user of its image")
	}
}

// podRights notes what is said of all containers of a pod.
func (g *kubeGroup) podRights(w *workload, at []string, p *k8s.PodSecurityContext) {
	o := w.object
	if p.FSGroup != nil {
		g.said(o, extend(at, "fsGroup"), "is not needed: files and volumes belong to the user of the container")
	}
	if len(p.SupplementalGroups) > 0 {
		g.lost(o, extend(at, "supplementalGroups"), "are not carried over: a container has one group")
	}
	for i := range p.Sysctls {
		g.lost(o, extend(at, "sysctls", index(i)), "is not carried over: the kernel's settings are those of the worker")
	}
	for field, given := range map[string]bool{"seLinuxOptions": p.SELinuxOptions != nil, "windowsOptions": p.WindowsOptions != nil, "appArmorProfile": p.AppArmorProfile != nil} {
		if given {
			g.lost(o, extend(at, field), noCounterpart)
		}
	}
}

// nodeAt is what stands at a path of the document.
func (o *object) nodeAt(path []string) *node {
	n := o.doc.root
	for _, s := range path {
		if n == nil {
			return nil
		}
		if n.kind == listKind {
			i, err := strconv.Atoi(s[1 : len(s)-1])
			if err != nil || i >= len(n.values) {
				return nil
			}
			n = n.values[i]
			continue
		}
		n = n.child(s)
	}
	return n
}
