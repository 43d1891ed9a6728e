package importer

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/k8s"
)

// workloadSpec has what Deployment, StatefulSet, DaemonSet, ReplicaSet,
// ReplicationController and Job say around the template of their pods. Which of it a
// kind has is said by its cover.
type workloadSpec struct {
	Replicas                *int32                      `json:"replicas"`
	Template                podTemplate                 `json:"template"`
	Strategy                updateStrategy              `json:"strategy"`
	UpdateStrategy          updateStrategy              `json:"updateStrategy"`
	MinReadySeconds         int32                       `json:"minReadySeconds"`
	ProgressDeadlineSeconds *int32                      `json:"progressDeadlineSeconds"`
	ServiceName             string                      `json:"serviceName"`
	PodManagementPolicy     k8s.PodManagementPolicyType `json:"podManagementPolicy"`
	VolumeClaimTemplates    []k8s.PersistentVolumeClaim `json:"volumeClaimTemplates"`
	Parallelism             *int32                      `json:"parallelism"`
	Completions             *int32                      `json:"completions"`
	BackoffLimit            *int32                      `json:"backoffLimit"`
	BackoffLimitPerIndex    *int32                      `json:"backoffLimitPerIndex"`
	TTLSecondsAfterFinished *int32                      `json:"ttlSecondsAfterFinished"`
	ActiveDeadlineSeconds   *int64                      `json:"activeDeadlineSeconds"`
	Suspend                 bool                        `json:"suspend"`
	CompletionMode          k8s.CompletionMode          `json:"completionMode"`
	// What Verge has no use for has a place here, so that it is no mistake: its cover says
	// what becomes of it.
	Selector             ignoredField             `json:"selector"`
	RevisionHistoryLimit ignoredField             `json:"revisionHistoryLimit"`
	Paused               bool                     `json:"paused"`
	RollbackTo           ignoredField             `json:"rollbackTo"`
	RetentionPolicy      ignoredField             `json:"persistentVolumeClaimRetentionPolicy"`
	Ordinals             ignoredField             `json:"ordinals"`
	ManualSelector       ignoredField             `json:"manualSelector"`
	PodReplacementPolicy k8s.PodReplacementPolicy `json:"podReplacementPolicy"`
	ManagedBy            ignoredField             `json:"managedBy"`
	PodFailurePolicy     ignoredField             `json:"podFailurePolicy"`
	SuccessPolicy        ignoredField             `json:"successPolicy"`
	MaxFailedIndexes     ignoredField             `json:"maxFailedIndexes"`
	Traffic              ignoredField             `json:"traffic"`
}

// podTemplate is that of a pod, with what Knative says besides.
type podTemplate struct {
	k8s.ObjectMeta `json:"metadata"`
	Spec           podSpec      `json:"spec"`
	APIVersion     ignoredField `json:"apiVersion"`
	Kind           ignoredField `json:"kind"`
}

type podSpec struct {
	k8s.PodSpec          `json:",inline"`
	ContainerConcurrency *int64       `json:"containerConcurrency"`
	TimeoutSeconds       *int64       `json:"timeoutSeconds"`
	IdleTimeout          ignoredField `json:"idleTimeoutSeconds"`
	ResponseStartTimeout ignoredField `json:"responseStartTimeoutSeconds"`
}

// ignoredField takes anything.
type ignoredField struct{}

// UnmarshalJSON takes anything.
func (*ignoredField) UnmarshalJSON([]byte) error { return nil }

// given says that something is there, whatever it is.
type given bool

// UnmarshalJSON takes anything.
func (g *given) UnmarshalJSON([]byte) error { *g = true; return nil }

type updateStrategy struct {
	Type          string `json:"type"`
	RollingUpdate *struct {
		MaxSurge       *intstr.IntOrString `json:"maxSurge"`
		MaxUnavailable *intstr.IntOrString `json:"maxUnavailable"`
		Partition      *int32              `json:"partition"`
	} `json:"rollingUpdate"`
}

// workload is what runs pods.
type workload struct {
	object *object
	spec   workloadSpec
	pod    *k8s.PodSpec
	// base is the path of spec, and path that of the specification of its pods, which have
	// labels. cron is the schedule that it runs by.
	base       []string
	cron       *cronSpec
	path       []string
	labels     map[string]string
	containers []*container
	services   []*kubeService
}

// container is one of a workload, which becomes a service.
type container struct {
	*k8s.Container
	workload *workload
	path     []string
	name     string // of its service in Verge
	ports    portList
	byName   map[string]int // numbers of its ports by the names of the source
	env      map[string]envValue
	order    []string // of its variables
	where    map[string][]string
}

// maxListed bounds what is looked at of one object, far above what anybody has.
const maxListed = 1000

// workload reads one that runs pods.
func (g *kubeGroup) workload(o *object) {
	w := &workload{object: o, base: o.at("spec")}
	spec := o.root.child("spec")
	if spec == nil || spec.kind != mappingKind {
		g.refuse(o, o.at(), "Kubernetes would refuse it: %s has no spec", o.title())
		return
	}
	var ok bool
	if o.kind == "Pod" {
		w.pod, w.path, w.labels = &k8s.PodSpec{}, o.at("spec"), o.meta.Labels
		ok = decodeInto(g.report, o, spec, w.path, w.pod)
	} else {
		ok = true
		if o.kind == "CronJob" {
			w.cron = &cronSpec{}
			ok = decodeInto(g.report, o, spec, w.base, w.cron)
			spec, w.base = spec.child("jobTemplate").child("spec"), o.at("spec", "jobTemplate", "spec")
		}
		ok = decodeInto(g.report, o, spec, w.base, &w.spec) && ok
		w.pod, w.path, w.labels = &w.spec.Template.Spec.PodSpec, extend(w.base, "template", "spec"), w.spec.Template.Labels
		ok = g.selects(w, spec.child("selector")) && ok
	}
	if len(w.pod.Containers) == 0 {
		g.refuse(o, w.path, "Kubernetes would refuse it: %s has no containers", o.title())
		return
	}
	g.report.leftovers(o.doc, o.root, o.base, workloadTries()[o.kind])
	for _, c := range slices.Concat(w.pod.Containers, w.pod.InitContainers) {
		if len(c.Ports) > maxListed || len(c.VolumeMounts) > maxListed {
			g.refuse(o, w.path, "cannot be expressed: a container has more than %d ports or mounts", maxListed)
			return
		}
	}
	if len(w.pod.Containers)+len(w.pod.InitContainers)+len(g.workloads) > api.MaxServices {
		g.refuse(o, w.path, "cannot be expressed: an application has at most %d services", api.MaxServices)
		return
	}
	if ok {
		g.workloads = append(g.workloads, w)
		g.containers(w)
		g.unmounted(w)
	}
}

// selects makes sure that the selector of a workload finds its own pods, without which
// Kubernetes refuses it.
func (g *kubeGroup) selects(w *workload, n *node) bool {
	o := w.object
	at := o.at("spec", "selector")
	if o.kind == "Job" || o.kind == "CronJob" || o.kind == knative {
		return true
	}
	if n.empty() {
		if o.group == "apps" && o.version == "v1" {
			g.refuse(o, o.at("spec"), "Kubernetes would refuse it: %s has no selector (spec.selector.matchLabels)", o.title())
			return false
		}
		return true
	}
	s := &k8s.LabelSelector{}
	if o.kind == "ReplicationController" {
		if !decodeInto(g.report, o, n, at, &s.MatchLabels) {
			return false
		}
	} else if !decodeInto(g.report, o, n, at, s) {
		return false
	}
	if g.selectorRefused(o, at, s) {
		return false
	}
	if !selected(s, w.labels) {
		g.refuse(o, at, "Kubernetes would refuse it: it does not select the labels of its own pods (spec.template.metadata.labels)")
		return false
	}
	return true
}

// selected says whether a selector takes labels.
func selected(s *k8s.LabelSelector, labels map[string]string) bool {
	for k, v := range s.MatchLabels {
		if got, has := labels[k]; !has || got != v {
			return false
		}
	}
	for _, e := range s.MatchExpressions {
		v, has := labels[e.Key]
		in := has && slices.Contains(e.Values, v)
		switch e.Operator {
		case k8s.LabelSelectorOpIn:
			has = in
		case k8s.LabelSelectorOpNotIn:
			has = !in
		case k8s.LabelSelectorOpDoesNotExist:
			has = !has
		}
		if !has {
			return false
		}
	}
	return true
}

// containers takes those of a pod. Each is a service; the one that its Services lead to,
// or else the first, is the one that the others are told apart from.
func (g *kubeGroup) containers(w *workload) {
	names := map[string]bool{}
	add := func(c *k8s.Container, field string, i int) {
		path := extend(w.path, field, index(i))
		switch {
		case c.Name == "" && w.object.kind == knative: // which has one container most of the time
			c.Name = "user-container"
		case c.Name == "":
			g.refuse(w.object, path, "Kubernetes would refuse it: the container has no name")
		case !kubeName().MatchString(c.Name) || len(c.Name) > 63 || strings.Contains(c.Name, "."):
			g.refuse(w.object, extend(path, "name"), "Kubernetes would refuse it: %s is no name of a container", quote(c.Name))
		case names[c.Name]:
			g.refuse(w.object, extend(path, "name"), "Kubernetes would refuse it: %s is the name of another container too", quote(c.Name))
		}
		if c.Image == "" {
			g.refuse(w.object, path, "has no image: a container is made of one")
		}
		names[c.Name] = true
	}
	for i := range w.pod.Containers {
		c := &w.pod.Containers[i]
		add(c, "containers", i)
		w.containers = append(w.containers, g.newContainer(w, c, extend(w.path, "containers", index(i))))
	}
	for i := range w.pod.InitContainers {
		c := &w.pod.InitContainers[i]
		add(c, "initContainers", i)
		path := extend(w.path, "initContainers", index(i))
		if c.RestartPolicy != nil && *c.RestartPolicy == k8s.ContainerRestartPolicyAlways { // a sidecar
			w.containers = append(w.containers, g.newContainer(w, c, path))
			continue
		}
		g.lost(w.object, path, "is not carried over: nothing runs before an instance; what %s prepares is to be in the image, or done by the program itself", c.Name)
	}
	if name := w.object.meta.Annotations["kubectl.kubernetes.io/default-container"]; name != "" {
		w.first(func(c *container) bool { return c.Name == name })
	}
}

// first puts the first container of which something is true at the head.
func (w *workload) first(is func(*container) bool) {
	if i := slices.IndexFunc(w.containers, is); i > 0 {
		c := w.containers[i]
		w.containers = slices.Insert(slices.Delete(w.containers, i, i+1), 0, c)
	}
}

// call gives each container the name of its service.
func (g *kubeGroup) call() {
	wanted := func(w *workload) string {
		for _, s := range w.services {
			if s.object.meta.Name == w.object.meta.Name {
				return s.object.meta.Name
			}
		}
		for _, headless := range []bool{false, true} {
			for _, s := range w.services {
				if (s.spec.ClusterIP == "None") == headless {
					return s.object.meta.Name
				}
			}
		}
		return w.object.meta.Name
	}
	for _, own := range []bool{true, false} { // names that can stay are not taken by those that cannot
		for _, w := range g.workloads {
			name := wanted(w)
			if (label(name) == name) != own {
				continue
			}
			head := w.containers[0]
			head.name = g.given.unique(name)
			if head.name != w.object.meta.Name {
				why := ""
				if head.name == name {
					why = ", as the Service that leads to it"
				}
				g.said(w.object, w.object.at("metadata", "name"), "is called %s%s: others find it by that name", head.name, why)
			}
			g.known[name] = head.name
		}
	}
	for _, w := range g.workloads {
		for _, c := range w.containers[1:] {
			c.name = g.given.unique(w.containers[0].name + "-" + c.Name)
			g.lost(w.object, c.path, "becomes a service of its own, %s: it is not beside %s, is not reached at localhost, and shares no files with it", c.name, w.containers[0].Name)
		}
		for _, s := range w.services {
			if to := w.containers[0].name; g.known[s.object.meta.Name] == "" {
				g.known[s.object.meta.Name] = to
			}
		}
	}
}

// container makes a service of one.
func (g *kubeGroup) container(w *workload, c *container) *api.Service {
	out := &api.Service{Runtime: api.Container, Image: c.Image}
	switch c.ImagePullPolicy {
	case k8s.PullAlways:
		out.Pull = "always"
	case k8s.PullNever:
		out.Pull = "never"
	}
	for i, s := range w.pod.ImagePullSecrets {
		if i == 0 && s.Name != "" {
			out.PullSecret = label(s.Name)
			g.said(w.object, extend(w.path, "imagePullSecrets", "[0]"), "the secret %s is to be set: verge secret set %s --from-file FILE, with what .dockerconfigjson of the Secret holds, or --registry", out.PullSecret, out.PullSecret)
		} else if i > 0 {
			g.lost(w.object, extend(w.path, "imagePullSecrets", index(i)), "is not carried over: an image has one secret to pull it with")
		}
	}
	g.environment(w, c, out)
	out.Command, out.Args = g.words(w, c, "command", c.Command), g.words(w, c, "args", c.Args)
	if len(out.Command) > 0 {
		out.Command, out.Args = append(out.Command, out.Args...), nil
	}
	out.Ports = c.ports.ports
	g.amounts(w, c, out)
	g.number(w, c, out)
	g.place(w, c, out)
	g.health(w, c, out)
	out.Ports = c.ports.ports
	g.storage(w, c, out)
	g.end(w, c, out)
	g.rights(w, c, out)
	g.noCounterparts(w, c)
	if r := &out.Rollout; out.Pins() && r.MaxSurge != nil && *r.MaxSurge != 0 {
		g.lost(w.object, w.object.at("spec", "strategy", "rollingUpdate", "maxSurge"), "is not carried over: each instance has a volume that is kept for it alone")
		if r.MaxSurge = nil; r.MaxUnavailable != nil && *r.MaxUnavailable == 0 {
			r.MaxUnavailable = nil
		}
	}
	return out
}

// noCounterparts notes the fields of a container that Verge has nothing for. Where its
// last words are read from, and whether it is resized in place, do not matter to what runs.
func (g *kubeGroup) noCounterparts(w *workload, c *container) {
	for field, is := range map[string]struct {
		given bool
		why   string
	}{
		"workingDir":         {c.WorkingDir != "", noWorkingDir},
		"stdin":              {c.Stdin, noInput},
		"tty":                {c.TTY, noTerminal},
		"restartPolicyRules": {len(c.RestartPolicyRules) > 0, "is not carried over: what an exit code means is that of all (restart.policy)"},
	} {
		if is.given {
			g.lost(w.object, extend(c.path, field), "%s", is.why)
		}
	}
	for i, p := range c.Ports {
		if p.HostIP != "" && p.HostIP != "0.0.0.0" && p.HostIP != "::" && p.HostPort != 0 {
			g.lost(w.object, extend(c.path, "ports", index(i), "hostIP"), "is not carried over: gateways serve at all addresses of their machines")
		}
	}
}

// unmounted notes the volumes of a pod that no container mounts.
func (g *kubeGroup) unmounted(w *workload) {
	mounted := map[string]bool{}
	for _, c := range slices.Concat(w.pod.Containers, w.pod.InitContainers) {
		for _, m := range c.VolumeMounts {
			mounted[m.Name] = true
		}
		for _, d := range c.VolumeDevices {
			mounted[d.Name] = true
		}
	}
	for i, v := range w.pod.Volumes {
		if v.Name != "" && !mounted[v.Name] {
			g.said(w.object, extend(w.path, "volumes", index(i)), "is mounted by no container, and left out")
		}
	}
}

// number is how many there are, and how they are brought to another version.
func (g *kubeGroup) number(w *workload, c *container, out *api.Service) {
	o := w.object
	if n := w.spec.Replicas; n != nil && o.kind != "Job" && o.kind != "CronJob" && o.kind != "DaemonSet" {
		at := o.at("spec", "replicas")
		if *n < 0 {
			g.refuse(o, at, "Kubernetes would refuse it: %d is less than none", *n)
		}
		if out.Replicas = (api.Replicas{Min: int(*n), Max: int(*n)}); *n == 0 {
			out.Replicas = none
		}
	}
	switch o.kind {
	case "Job", "CronJob":
		g.job(w, out)
		g.schedule(w, out)
		return
	case "Pod":
		g.pod(w, out)
		return
	case knative:
		g.scaled(w, c, out)
	case "DaemonSet":
		if c == w.containers[0] {
			g.lost(o, o.at("kind"), "Verge has no service with an instance on every worker: %s has one instance, and at most one on a worker; write replicas", c.name)
		}
		out.AntiAffinity.Service = []string{c.name}
	case "StatefulSet":
		if p := w.spec.PodManagementPolicy; p != "" && p != "Parallel" {
			g.lost(o, o.at("spec", "podManagementPolicy"), "the order of starting is not carried over: all instances start at once")
		}
		if c == w.containers[0] {
			g.said(o, o.at("metadata", "name"), "its pods are instances: %s-0 is reached as 0.instance.%s", o.meta.Name, c.name)
		}
	}
	if p := w.pod.RestartPolicy; p != "" && p != k8s.RestartPolicyAlways {
		g.refuse(o, extend(w.path, "restartPolicy"), "Kubernetes would refuse it: %s restarts always", o.kind)
	}
	g.rollout(w, out)
}

func (g *kubeGroup) rollout(w *workload, out *api.Service) {
	o, strategy, field := w.object, &w.spec.Strategy, "strategy"
	if o.kind == "StatefulSet" || o.kind == "DaemonSet" {
		strategy, field = &w.spec.UpdateStrategy, "updateStrategy"
	}
	at := o.at("spec", field)
	types := []string{"RollingUpdate", "Recreate"}
	if field == "updateStrategy" {
		types[1] = "OnDelete"
	}
	if t := strategy.Type; t != "" && !slices.Contains(types, t) {
		g.refuse(o, extend(at, "type"), "Kubernetes would refuse it: %s is no strategy of a %s (%s)", quote(t), o.kind, strings.Join(types, ", "))
		return
	}
	switch strategy.Type {
	case "Recreate":
		surge, all := api.Amount(0), api.Amount(-100)
		out.Rollout.MaxSurge, out.Rollout.MaxUnavailable = &surge, &all
		g.said(o, extend(at, "type"), "all instances are updated at once, each when its old one has ended")
	case "OnDelete":
		g.lost(o, extend(at, "type"), "is not carried over: what is applied is rolled out")
	}
	if r := strategy.RollingUpdate; r != nil {
		in := extend(at, "rollingUpdate")
		out.Rollout.MaxSurge = g.amount(o, extend(in, "maxSurge"), r.MaxSurge)
		out.Rollout.MaxUnavailable = g.amount(o, extend(in, "maxUnavailable"), r.MaxUnavailable)
		if s, u := out.Rollout.MaxSurge, out.Rollout.MaxUnavailable; s != nil && *s == 0 && u != nil && *u == 0 {
			g.refuse(o, in, "Kubernetes would refuse it: maxSurge and maxUnavailable are both 0")
		}
		if r.Partition != nil && *r.Partition > 0 {
			g.lost(o, extend(in, "partition"), "is not carried over: all instances are updated")
		}
	}
	if s := w.spec.MinReadySeconds; s > 0 {
		d := clamp(g.report, o.doc, o.at("spec", "minReadySeconds"), time.Duration(s)*time.Second, 0, time.Hour)
		out.Rollout.MinReady = &d
	}
	if s := w.spec.ProgressDeadlineSeconds; s != nil {
		d := clamp(g.report, o.doc, o.at("spec", "progressDeadlineSeconds"), time.Duration(*s)*time.Second, time.Second, 24*time.Hour)
		out.Rollout.ProgressDeadline = &d
	}
}

// amount is a number of instances, or a share of them.
func (g *kubeGroup) amount(o *object, path []string, v *intstr.IntOrString) *api.Amount {
	if v == nil {
		return nil
	}
	a, err := api.ParseAmount(v.String())
	if err != nil {
		if n, is := strings.CutSuffix(v.String(), "%"); is && len(n) == 3 && n > "100" && strings.Trim(n, "0123456789") == "" {
			a = -100
			g.lost(o, path, "is 100%%: not more than all of them")
			return &a
		}
		g.refuse(o, path, "cannot be expressed: %v", err)
		return nil
	}
	return &a
}

func (g *kubeGroup) job(w *workload, out *api.Service) {
	o, s := w.object, &w.spec
	at := func(field string) []string { return extend(w.base, field) }
	j := &api.Job{Suspend: s.Suspend}
	counts := func(field string, v *int32, least int32) int {
		if v == nil {
			return 0
		}
		if *v < least || *v > api.MaxReplicas {
			g.refuse(o, at(field), "cannot be expressed: %d is not from %d to %d", *v, least, api.MaxReplicas)
			return 0
		}
		return int(*v)
	}
	j.Completions, j.Parallelism = counts("completions", s.Completions, 1), counts("parallelism", s.Parallelism, 0)
	if s.Parallelism != nil && *s.Parallelism == 0 {
		j.Suspend = true
		g.said(o, at("parallelism"), "nothing of it runs: it is suspended")
	}
	if s.Completions == nil && j.Parallelism > 1 {
		j.Completions = j.Parallelism
		g.lost(o, at("parallelism"), "pods that share a list of work, of which one ends all, cannot be expressed: each of %d has to complete", j.Parallelism)
	}
	if j.Parallelism > max(j.Completions, 1) {
		j.Parallelism = j.Completions
	}
	limit, field := s.BackoffLimit, "backoffLimit"
	if s.BackoffLimitPerIndex != nil {
		limit, field = s.BackoffLimitPerIndex, "backoffLimitPerIndex"
	} else if limit != nil && j.Completions > 1 {
		g.said(o, at(field), "counts for each index by itself (job.retries), and not for all together")
	}
	if limit != nil {
		n := int(max(min(*limit, 1000), 0))
		if int(*limit) != n {
			g.lost(o, at(field), "is %d: retries are from 0 to 1000", n)
		}
		j.Retries = &n
	}
	if d := s.ActiveDeadlineSeconds; d != nil {
		j.Deadline = clamp(g.report, o.doc, at("activeDeadlineSeconds"), seconds(*d), time.Second, time.Duration(api.MaxDuration))
	}
	if d := s.TTLSecondsAfterFinished; d != nil {
		keep := clamp(g.report, o.doc, at("ttlSecondsAfterFinished"), seconds(int64(*d)), 0, time.Duration(api.MaxDuration))
		j.Keep = &keep
		g.said(o, at("ttlSecondsAfterFinished"), "is how long its logs are kept; the application stays until it is deleted")
	}
	switch p := w.pod.RestartPolicy; p {
	case k8s.RestartPolicyNever, k8s.RestartPolicyOnFailure:
	default:
		g.refuse(o, extend(w.path, "restartPolicy"), "Kubernetes would refuse it: that of a Job is Never or OnFailure")
	}
	g.asJob(out, j)
	if s.CompletionMode == "Indexed" {
		if out.Env == nil {
			out.Env = map[string]string{}
		}
		out.Env["JOB_COMPLETION_INDEX"] = "${VERGE_JOB_INDEX}"
	}
}

// asJob makes a service one that runs to completion.
func (g *kubeGroup) asJob(out *api.Service, j *api.Job) { asJob(out, j) }

func asJob(out *api.Service, j *api.Job) {
	out.Job = j
	n := max(j.Completions, 1)
	out.Replicas = api.Replicas{Min: n, Max: n}
}

// seconds is a time that does not overflow.
func seconds(s int64) time.Duration {
	return time.Duration(min(s, int64(api.MaxDuration)/int64(time.Second)+1)) * time.Second
}

// pod is one by itself, which runs to completion where it is not to be restarted always.
func (g *kubeGroup) pod(w *workload, out *api.Service) {
	o, at := w.object, extend(w.path, "restartPolicy")
	retries := 0
	switch p := w.pod.RestartPolicy; p {
	case "", k8s.RestartPolicyAlways:
		return
	case k8s.RestartPolicyOnFailure:
		retries = 1000
	}
	asJob(out, &api.Job{Retries: &retries})
	g.said(o, at, "it runs to completion: it is a job, and is run again %d times at most", retries)
}

// end is how an instance is ended.
func (g *kubeGroup) end(w *workload, c *container, out *api.Service) {
	o := w.object
	out.Stop.Grace = api.Duration(30 * time.Second) // Kubernetes' own: longer than Verge's
	if s := w.pod.TerminationGracePeriodSeconds; s != nil {
		at := extend(w.path, "terminationGracePeriodSeconds")
		switch {
		case *s < 0:
			g.refuse(o, at, "Kubernetes would refuse it: %d is less than none", *s)
		case *s == 0:
			out.Stop.Grace, out.Stop.Signal = 0, "KILL"
		default:
			out.Stop.Grace = clamp(g.report, o.doc, at, seconds(*s), time.Millisecond, 10*time.Minute)
		}
	}
	l := c.Lifecycle
	if l == nil {
		return
	}
	at := extend(c.path, "lifecycle")
	if l.StopSignal != nil && out.Stop.Signal != "KILL" {
		if sig := strings.TrimPrefix(string(*l.StopSignal), "SIG"); slices.Contains(stopSignals, sig) {
			out.Stop.Signal = sig
		} else {
			g.lost(o, extend(at, "stopSignal"), "%s is not carried over: Verge sends %s", quote(sig), strings.Join(stopSignals, ", "))
		}
	}
	if l.PreStop != nil {
		g.lost(o, extend(at, "preStop"), noHooks)
	}
	if l.PostStart != nil {
		g.lost(o, extend(at, "postStart"), noHooks)
	}
}
