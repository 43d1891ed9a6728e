package importer

import (
	"fmt"
	"math"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"github.com/verge-edge/verge/api"
)

// ports are those that a service publishes, and those it says it has.
func (c *composer) ports(name string, s types.ServiceConfig, out *api.Service) {
	l := &portList{}
	at := []string{"ports"}
	for i, p := range s.Ports {
		at = c.portPath(name, len(s.Ports), i, p, at)
		protocol := p.Protocol
		switch p.Protocol {
		case "", "tcp":
			protocol = protocolOf(p.AppProtocol)
		case "udp":
		default:
			c.lost(name, "is not carried over: "+quote(p.Protocol)+" is not a protocol of Verge", at...)
			continue
		}
		port := l.add(p.Name, int(p.Target), protocol)
		if p.Published == "" {
			c.lost(name, "is not published: Docker chooses a port of the machine for it, and a gateway has those that are named (ingress: {port: …})", at...)
			continue
		}
		if p.Mode == "host" {
			c.said(name, "is published at "+p.Published+" of the gateways, and not of each worker", at...)
		}
		ip, _ := netip.ParseAddr(p.HostIP)
		if ip.IsLoopback() {
			c.lost(name, "is not published: "+p.HostIP+" is the machine alone, and gateways serve everybody", at...)
			continue
		}
		if p.HostIP != "" && !ip.IsUnspecified() {
			c.lost(name, quote(p.HostIP)+" is not carried over: gateways serve at all addresses of their machines", at...)
		}
		n, err := strconv.Atoi(p.Published)
		if err != nil || n < 1 {
			c.lost(name, "is not published: "+quote(p.Published)+" is not one port", at...)
			continue
		}
		if err := publish(port, n, c.taken, c.names[name]); err != nil {
			c.lost(name, err.Error(), at...)
		}
	}
	for i, e := range s.Expose {
		number, protocol, _ := strings.Cut(e, "/")
		first, last, isRange := strings.Cut(number, "-")
		from, err := strconv.Atoi(first)
		to := from
		if isRange && err == nil {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < 1 || to > 65535 || to < from || to-from > 63 || protocol != "" && protocol != "tcp" && protocol != "udp" {
			c.lost(name, "is not carried over: "+quote(e)+" is not a port, or too many", "expose", index(i))
			continue
		}
		if protocol == "tcp" {
			protocol = ""
		}
		for n := from; n <= to; n++ {
			l.add("", n, protocol)
		}
	}
	out.Ports = l.ports
}

// portPath is where the i-th port of n is written. A range makes several of one, so that
// they are counted alike only where there is none; else it is the one with its numbers, or
// that of the port before.
func (c *composer) portPath(name string, n, i int, p types.ServicePortConfig, before []string) []string {
	written := c.doc.root.child("services").child(name).child("ports")
	switch {
	case written == nil || written.kind != listKind:
		return []string{"ports"}
	case len(written.values) == n:
		return []string{"ports", index(i)}
	}
	for j, v := range written.values {
		text, _, _ := strings.Cut(v.text, "/")
		if v.kind == mappingKind {
			text = v.str("published") + ":" + v.str("target")
		}
		target := strconv.Itoa(int(p.Target))
		if text == target || strings.HasSuffix(text, p.Published+":"+target) {
			return []string{"ports", index(j)}
		}
	}
	return before
}

func (c *composer) portVariables(name string, out *api.Service) {
	portVariables(c.report, c.doc, out, func(k string) []string { return c.path(name, c.envPath(name, k)...) })
}

// cpus is an amount of processors in thousandths.
func (c *composer) cpus(name string, cpus float32, field ...string) api.CPU {
	n := math.Round(float64(cpus) * 1000)
	if !(n >= 0 && n <= float64(api.MaxCPU)) { // nor NaN
		c.report.at(Refused, c.doc, c.path(name, field...), "is no number of processors from 0 to %d", api.MaxCPU/1000)
		return 0
	}
	return api.CPU(n)
}

// bytes is an amount of memory. One that is more than can be counted is negative here.
func (c *composer) bytes(name string, n types.UnitBytes, field ...string) api.Bytes {
	if n < 0 || api.Bytes(n) > api.MaxBytes {
		c.report.at(Refused, c.doc, c.path(name, field...), "is no amount of memory from 0 to %s: write one such as 512m", api.MaxBytes)
		return 0
	}
	return api.Bytes(n)
}

func (c *composer) resources(name string, s types.ServiceConfig, out *api.Service) {
	out.Limits.Memory, out.Resources.Memory = c.bytes(name, s.MemLimit, "mem_limit"), c.bytes(name, s.MemReservation, "mem_reservation")
	out.Limits.CPU = c.cpus(name, s.CPUS, "cpus")
	gpus, at := s.Gpus, []string{"gpus"}
	if d := s.Deploy; d != nil {
		if l := d.Resources.Limits; l != nil {
			if l.MemoryBytes != 0 {
				out.Limits.Memory = c.bytes(name, l.MemoryBytes, "deploy", "resources", "limits", "memory")
			}
			if l.NanoCPUs != 0 {
				out.Limits.CPU = c.cpus(name, l.NanoCPUs.Value(), "deploy", "resources", "limits", "cpus")
			}
			if l.Pids != 0 {
				c.lost(name, "is not carried over: Verge does not count processes", "deploy", "resources", "limits", "pids")
			}
		}
		if r := d.Resources.Reservations; r != nil {
			if r.MemoryBytes != 0 {
				out.Resources.Memory = c.bytes(name, r.MemoryBytes, "deploy", "resources", "reservations", "memory")
			}
			out.Resources.CPU = c.cpus(name, r.NanoCPUs.Value(), "deploy", "resources", "reservations", "cpus")
			if len(r.Devices) > 0 {
				gpus, at = r.Devices, []string{"deploy", "resources", "reservations", "devices"}
			}
			if len(r.GenericResources) > 0 {
				c.lost(name, "are not carried over: devices are asked for by type (devices: [{type: camera}])", "deploy", "resources", "reservations", "generic_resources")
			}
		}
	}
	for i, g := range gpus {
		gpu := len(g.Capabilities) == 0 || slices.Contains(g.Capabilities, "gpu")
		switch n := max(int(g.Count), len(g.IDs)); {
		case !gpu:
			c.lost(name, "is not carried over: it asks for no gpu", append(at, index(i))...)
		case n < 1: // all of them
			out.Resources.VGPUs = max(out.Resources.VGPUs, 1000)
			c.lost(name, "all gpus of a machine cannot be asked for: it gets one (resources.vgpus)", append(at, index(i))...)
		default:
			out.Resources.VGPUs += api.Units(n) * 1000
		}
	}
}

// placement is how many there are, and where.
func (c *composer) placement(name string, s types.ServiceConfig, out *api.Service) {
	n := s.GetScale()
	if n != 1 {
		out.Replicas = api.Replicas{Min: n, Max: n}
	}
	if n == 0 {
		out.Replicas = none
	}
	if s.Platform != "" {
		os, arch, _ := strings.Cut(s.Platform, "/")
		arch, _, _ = strings.Cut(arch, "/")
		switch arch = architecture(arch); {
		case os == "wasi" || os == "wasip1":
			c.report.at(Refused, c.doc, c.path(name, "platform"), "cannot be expressed: what is made for %s is no container; a module of WebAssembly is runtime: wasm in a descriptor, with the object that it is", quote(s.Platform))
		case os == "windows":
			c.report.at(Refused, c.doc, c.path(name, "platform"), "cannot be expressed: Verge runs no containers of Windows")
		case os != "linux" || arch == "":
			c.lost(name, quote(s.Platform)+" is not carried over: it is no platform of Verge", "platform")
		default:
			out.Architecture = []string{arch}
		}
	}
	d := s.Deploy
	if d == nil {
		return
	}
	if d.Mode != "" && d.Mode != "replicated" && d.Mode != "replicated-job" {
		c.lost(name, quote(d.Mode)+" is not carried over: Verge has no service with an instance on every worker; write replicas", "deploy", "mode")
	}
	if d.Placement.MaxReplicas == 1 {
		out.AntiAffinity.Service = []string{c.names[name]}
	} else if d.Placement.MaxReplicas > 1 {
		c.lost(name, "is not carried over: at most one instance on a worker can be asked for", "deploy", "placement", "max_replicas_per_node")
	}
	for i := range d.Placement.Preferences {
		c.lost(name, "is not carried over: instances are spread over workers anyway", "deploy", "placement", "preferences", index(i))
	}
	for i, text := range d.Placement.Constraints {
		if !constraint(text, out) {
			c.lost(name, quote(text)+" is not carried over: only labels (node.labels.…) and the architecture are known of a worker", "deploy", "placement", "constraints", index(i))
		}
	}
}

// constraint adds one of swarm: "node.labels.zone == east".
func constraint(text string, out *api.Service) bool {
	op := "=="
	k, v, ok := strings.Cut(text, op)
	if !ok {
		op = "!="
		k, v, ok = strings.Cut(text, op)
	}
	k, v = strings.TrimSpace(k), strings.TrimSpace(v)
	if !ok {
		return false
	}
	if key, isLabel := strings.CutPrefix(k, "node.labels."); isLabel && api.LabelProblem(key, v) == "" {
		to := &out.Affinity.Labels
		if op == "!=" {
			to = &out.AntiAffinity.Labels
		}
		if _, twice := (*to)[key]; twice {
			return false
		}
		if *to == nil {
			*to = map[string]string{}
		}
		(*to)[key] = v
		return true
	}
	if k == "node.platform.arch" && op == "==" && architecture(v) != "" && len(out.Architecture) == 0 {
		out.Architecture = []string{architecture(v)}
		return true
	}
	return k == "node.platform.os" && op == "==" && v == "linux"
}

// architecture is the name that Go has for one, "" for none of Verge.
func architecture(s string) string {
	switch s {
	case "amd64", "x86_64", "x86-64":
		return "amd64"
	case "arm64", "aarch64":
		return "arm64"
	case "arm", "armhf", "armv7", "armv7l", "arm32v7":
		return "arm"
	case "386", "i386", "i686":
		return "386"
	case "riscv64", "ppc64le", "s390x", "mips64le", "mips64", "mips", "mipsle":
		return s
	case "loong64", "loongarch64":
		return "loong64"
	}
	return ""
}

// health is when an instance may receive requests. Docker's defaults are written out:
// they are slower than Verge's.
func (c *composer) health(name string, s types.ServiceConfig, out *api.Service) {
	h := s.HealthCheck
	if h == nil || h.Disable || len(h.Test) == 0 || h.Test[0] == "NONE" {
		return
	}
	check := &api.Check{Interval: api.Duration(30 * time.Second), Timeout: api.Duration(30 * time.Second), Failures: 3}
	switch h.Test[0] {
	case "CMD":
		check.Exec = &api.ExecCheck{Command: literals(h.Test[1:])}
	case "CMD-SHELL":
		check.Exec = &api.ExecCheck{Command: []string{"/bin/sh", "-c", literal(strings.Join(h.Test[1:], " "))}}
	default:
		check.Exec = &api.ExecCheck{Command: literals(h.Test)}
	}
	if len(check.Exec.Command) == 0 {
		c.lost(name, "is not carried over: it has no command", "healthcheck", "test")
		return
	}
	at := c.path(name, "healthcheck")
	if h.StartPeriod != nil && *h.StartPeriod > 0 {
		c.said(name, "is not needed: an instance is ready as soon as it passes", "healthcheck", "start_period")
	}
	if h.StartInterval != nil {
		c.said(name, "is not needed: an instance that starts is asked as often as one that runs", "healthcheck", "start_interval")
	}
	if h.Interval != nil && *h.Interval > 0 {
		check.Interval = clamp(c.report, c.doc, extend(at, "interval"), time.Duration(*h.Interval), 100*time.Millisecond, time.Hour)
	}
	if h.Timeout != nil && *h.Timeout > 0 {
		check.Timeout = clamp(c.report, c.doc, extend(at, "timeout"), time.Duration(*h.Timeout), 10*time.Millisecond, 5*time.Minute)
	}
	if h.Retries != nil && *h.Retries > 0 {
		if check.Failures = int(min(*h.Retries, maxTimes)); *h.Retries > maxTimes {
			c.lost(name, fmt.Sprintf("is %d, the most in Verge", maxTimes), "healthcheck", "retries")
		}
	}
	out.Readiness = check
}

// clamp brings d into bounds, and says so.
func clamp(r *report, d *doc, path []string, v, least, most time.Duration) api.Duration {
	if n := min(max(v, least), most); n != v {
		r.at(Lost, d, path, "is %s instead of %s: it is from %s to %s in Verge", api.Duration(n), api.Duration(v), api.Duration(least), api.Duration(most))
		v = n
	}
	return api.Duration(v)
}

// maxTimes is the most of Verge for failures in a row and for restarts.
const maxTimes = 1000

func (c *composer) restart(name string, s types.ServiceConfig, out *api.Service) {
	policy, times, counted := strings.Cut(s.Restart, ":")
	n, err := strconv.Atoi(times)
	switch {
	case counted && (policy != "on-failure" || err != nil || n < 0):
		c.report.at(Refused, c.doc, c.path(name, "restart"), "is no valid compose file: %s is no policy (no, always, unless-stopped, on-failure, on-failure:TIMES)", quote(s.Restart))
	case policy == "no":
		out.Restart.Policy = "never"
	case policy == "on-failure":
		if out.Restart.Policy = policy; !counted {
			break
		}
		if n > maxTimes {
			n = maxTimes
			c.lost(name, fmt.Sprintf("is %d times, the most in Verge", maxTimes), "restart")
		}
		out.Restart.MaxRestarts = &n
	case policy != "" && policy != "always" && policy != "unless-stopped":
		c.report.at(Refused, c.doc, c.path(name, "restart"), "is no valid compose file: %s is no policy (no, always, unless-stopped, on-failure, on-failure:TIMES)", quote(s.Restart))
	}
	d := s.Deploy
	if d == nil || d.RestartPolicy == nil {
		return
	}
	p, at := d.RestartPolicy, c.path(name, "deploy", "restart_policy")
	switch p.Condition {
	case "none":
		out.Restart.Policy = "never"
	case "on-failure":
		out.Restart.Policy = "on-failure"
	case "", "any", "always", "unless-stopped":
	default:
		c.report.at(Lost, c.doc, extend(at, "condition"), "is not carried over: %s is none (none, on-failure, any), and instances are started again whatever they end with, as with docker compose", quote(p.Condition))
	}
	if p.MaxAttempts != nil && out.Restart.Policy != "never" {
		n := int(min(*p.MaxAttempts, maxTimes))
		out.Restart.MaxRestarts = &n
		if *p.MaxAttempts > maxTimes {
			c.report.at(Lost, c.doc, extend(at, "max_attempts"), "is %d, the most in Verge", maxTimes)
		}
	}
	if p.Delay != nil && *p.Delay > 0 {
		out.Restart.Delay = clamp(c.report, c.doc, extend(at, "delay"), time.Duration(*p.Delay), time.Millisecond, time.Hour)
		out.Restart.MaxDelay = max(out.Restart.Delay, api.DefaultMaxDelay)
	}
	if p.Window != nil {
		c.report.at(Lost, c.doc, extend(at, "window"), "is not carried over: a minute of calm ends a row of restarts")
	}
}

// stopSignals are those that Verge sends.
var stopSignals = []string{"TERM", "INT", "QUIT", "HUP", "USR1", "USR2", "WINCH", "KILL"}

func (c *composer) stop(name string, s types.ServiceConfig, out *api.Service) {
	if s.StopSignal != "" {
		if sig := strings.TrimPrefix(strings.ToUpper(s.StopSignal), "SIG"); slices.Contains(stopSignals, sig) {
			out.Stop.Signal = sig
		} else {
			c.lost(name, quote(s.StopSignal)+" is not carried over: Verge sends "+strings.Join(stopSignals, ", "), "stop_signal")
		}
	}
	if g := s.StopGracePeriod; g != nil {
		out.Stop.Grace = clamp(c.report, c.doc, c.path(name, "stop_grace_period"), time.Duration(*g), time.Millisecond, 10*time.Minute)
	}
}

// storage is volumes, configs and secrets.
func (c *composer) storage(name string, s types.ServiceConfig, out *api.Service) {
	// Files come first: a volume that is in their way would hide them.
	for i, ref := range s.Secrets {
		target := ref.Target
		if target == "" {
			target = ref.Source
		}
		if !strings.HasPrefix(target, "/") {
			target = "/run/secrets/" + target
		}
		secret := c.secretNames["secrets."+ref.Source]
		if why := addFile(out, target, api.File{Secret: secret, Mode: mode(ref.Mode, 0o444)}); why != "" {
			c.lost(name, why, "secrets", index(i))
			continue
		}
		c.owner(name, "secrets", i, ref.UID, ref.GID)
		c.report.at(Said, c.doc, []string{"secrets", ref.Source}, "the secret %s is to be set: verge secret set %s --from-file FILE", secret, secret)
	}
	for i, ref := range s.Configs {
		c.owner(name, "configs", i, ref.UID, ref.GID)
		c.config(name, i, ref, out)
	}
	for i, v := range s.Volumes {
		if why := c.volume(name, i, v, out); why != "" {
			c.lost(name, why, "volumes", index(i))
		}
	}
	if size := c.bytes(name, s.ShmSize, "shm_size"); size > 0 {
		if why := addVolume(out, api.Volume{Path: "/dev/shm", Tmpfs: size}); why != "" {
			c.lost(name, why, "shm_size")
		} else {
			c.said(name, "is the size of /dev/shm, which counts as the instance's memory", "shm_size")
		}
	}
	for i, t := range s.Tmpfs {
		at, options, _ := strings.Cut(t, ":")
		size, strange := DefaultTmpfs, ""
		for _, o := range strings.Split(options, ",") {
			if v, ok := strings.CutPrefix(o, "size="); ok {
				var u types.UnitBytes
				if err := u.DecodeMapstructure(v); err == nil && u > 0 && api.Bytes(u) <= api.MaxBytes {
					size = api.Bytes(u)
				} else {
					strange = o
				}
			}
		}
		field := []string{"tmpfs"}
		if n := c.doc.root.child("services").child(name).child("tmpfs"); n != nil && n.kind == listKind {
			field = append(field, index(i))
		}
		if why := addVolume(out, api.Volume{Path: at, Tmpfs: size}); why != "" {
			c.lost(name, why, field...)
		} else if strange != "" {
			c.lost(name, quote(strange)+" is not carried over: it is no amount of memory that can be given here; it gets "+size.String(), field...)
		} else if !strings.Contains(options, "size=") {
			c.said(name, "gets "+size.String()+", as its size is not stated", field...)
		}
	}
}

// owner notes whose a file is to be.
func (c *composer) owner(name, field string, i int, uid, gid string) {
	if uid != "" || gid != "" {
		c.lost(name, "its uid and gid are not carried over: files belong to the user that the container starts as", field, index(i))
	}
}

func mode(m *types.FileMode, otherwise api.FileMode) api.FileMode {
	if m == nil || *m < 1 || *m > 0o777 {
		return otherwise
	}
	return api.FileMode(*m)
}

func (c *composer) config(name string, i int, ref types.ServiceConfigObjConfig, out *api.Service) {
	target := ref.Target
	if target == "" {
		target = "/" + ref.Source
	}
	def := c.project.Configs[ref.Source]
	content, from := def.Content, ""
	switch {
	case def.File != "":
		text, why := c.text(def.File)
		if why != "" {
			c.lost(name, "is not carried over: "+why, "configs", index(i))
			return
		}
		content, from = text, def.File
	case def.Environment != "":
		v, ok := c.lookup(def.Environment)
		if strings.Contains(v, hidden) {
			secret := c.secretName("${"+def.Environment+"}", def.Environment)
			c.said(name, "becomes the secret "+secret+": "+c.toSet(def.Environment, secret), "configs", index(i))
			if why := addFile(out, target, api.File{Secret: secret, Mode: mode(ref.Mode, 0o444)}); why != "" {
				c.lost(name, why, "configs", index(i))
			}
			return
		}
		if !ok {
			c.lost(name, "is not carried over: nothing sets ${"+def.Environment+"} (--env-file)", "configs", index(i))
			return
		}
		content = v
	case bool(def.External):
		c.lost(name, "is not carried over: its content is not in the file", "configs", index(i))
		return
	}
	if why := addFile(out, target, c.file(from, content, mode(ref.Mode, 0o444), c.path(name, "configs", index(i)))); why != "" {
		c.lost(name, why, "configs", index(i))
	}
}

// beneath is what stands in a file beside the source; why says why it cannot be had.
func (c *composer) beneath(file string) (data []byte, why string) {
	if c.source.Open == nil || path.IsAbs(file) || strings.HasPrefix(file, "~") {
		return nil, quote(file) + " is not beside the compose file"
	}
	data, err := c.source.Open(path.Clean(file))
	if err != nil {
		return nil, quote(file) + " cannot be read beside the compose file"
	}
	return data, ""
}

// text is a small file of text beside the source.
func (c *composer) text(file string) (text, why string) {
	if why := c.unfit[file]; why != "" {
		return "", why
	}
	data, why := c.beneath(file)
	switch {
	case why != "":
		return "", why
	case len(data) > maxContent:
		why = quote(file) + " is larger than 256 KiB; make an object of it (verge object put)"
	case readable(data) != nil || strings.ContainsFunc(string(data), unprintable):
		why = quote(file) + " is no text; make an object of it (verge object put), or put it into the image"
	default:
		return string(data), ""
	}
	c.unfit[file] = why
	return "", why
}

// file is one with a text of a file beside the source, or of the source itself. What has a
// secret in it becomes one.
func (c *composer) file(from, text string, mode api.FileMode, at []string) api.File {
	if !c.report.spend(len(text)) {
		c.report.tooMuch(c.doc, at)
		return api.File{}
	}
	if from == "" || !secretText(from, text) {
		return api.File{Content: literal(text), Mode: mode}
	}
	from = path.Clean(from)
	name := c.secretName("file:"+from, strings.TrimLeft(path.Base(from), "."))
	c.report.at(Said, c.doc, at, "becomes the secret %s, as there are secrets in it: verge secret set %s --from-file %s", name, name, shownPath(from))
	return api.File{Secret: name, Mode: mode}
}

// secretText says whether a file is a private key, or one of variables that has a secret.
func secretText(file, text string) bool {
	if strings.Contains(text, "PRIVATE KEY-----") {
		return true
	}
	if !strings.HasSuffix(file, dotEnv) {
		return false
	}
	vars, err := readVariables([]byte(text), nil, nothing, (&report{}).spend)
	if err != nil {
		return true
	}
	for k, v := range vars.values {
		if v != "" && secretValue(k, v) {
			return true
		}
	}
	return false
}

// unprintable characters have no place in a descriptor.
func unprintable(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }

// volume adds one; the text says why it could not.
func (c *composer) volume(name string, i int, v types.ServiceVolumeConfig, out *api.Service) string {
	switch v.Type {
	case "tmpfs":
		size := DefaultTmpfs
		if v.Tmpfs != nil && v.Tmpfs.Size > 0 {
			size = api.Bytes(v.Tmpfs.Size)
		}
		return addVolume(out, api.Volume{Path: v.Target, Tmpfs: size})
	case "volume":
		if v.Source == "" {
			return "is not carried over: a volume without name does not outlive the instance; what is written there is gone when it ends"
		}
		if others := c.users(v.Source); len(others) > 1 {
			c.lost(name, "is not shared: each instance of "+list(others)+" has a volume "+label(v.Source)+" of its own", "volumes", index(i))
		}
		if v.Volume != nil && v.Volume.Subpath != "" {
			c.lost(name, "the subpath is not carried over: all of the volume is there", "volumes", index(i))
		}
		return addVolume(out, api.Volume{Path: v.Target, Name: label(v.Source), ReadOnly: v.ReadOnly})
	case "bind":
		if v.Source == "/var/run/docker.sock" || v.Source == "/run/docker.sock" {
			return "is not carried over: there is no Docker, and no instance may command its worker"
		}
		if path.IsAbs(v.Source) {
			c.said(name, "needs a directory "+quote(v.Source)+" on the worker, which its operator allows (verge worker --allow-host-path)", "volumes", index(i))
			return addVolume(out, api.Volume{Path: v.Target, Host: path.Clean(v.Source), ReadOnly: v.ReadOnly})
		}
		text, why := c.text(v.Source)
		if why != "" {
			return "is not carried over: " + why + "; a worker has no folder of this project, so put what is in it into the image, into files, or below a host path"
		}
		if why := addFile(out, v.Target, c.file(v.Source, text, 0o644, c.path(name, "volumes", index(i)))); why != "" {
			return why
		}
		if !v.ReadOnly {
			c.lost(name, "is carried over as it is now: what an instance writes to it stays with the instance", "volumes", index(i))
		}
		return ""
	}
	return "is not carried over: Verge has no volume of type " + quote(v.Type)
}

// users are the services with a volume.
func (c *composer) users(volume string) (out []string) {
	for name, s := range c.project.Services {
		if slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Type == "volume" && v.Source == volume }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
