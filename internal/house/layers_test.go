package house

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// layer is a floor of the house. Code may use what lies below its floor; beside
// it only where the neighbours table says so.
type layer int

const (
	ground layer = iota // what the vocabulary itself is read with, and what everything else is set up with
	apiLayer
	wireLayer
	rpcLayer
	forms      // what is stored, shown and said within a node, made of messages
	eventLayer // kinds of events, which deciders name
	deciders
	doers
	entrance // what several roles do alike with several doers
	roles
	client
	composition // puts the roles behind the command line
	program
	outside // tools, examples, end-to-end tests: they may use anything
	unknown
)

func (l layer) String() string {
	return [...]string{
		"the ground (internal/yamltree, internal/tlsconf)", "the vocabulary (api)", "the messages (internal/wire)",
		"the questions between tiers (internal/wire/rpc)", "a form made of messages", "the kinds of events (internal/event)",
		"a decider (internal/policy/…, internal/access)", "a doer",
		"shared by roles", "a role", "the client (internal/cli)", "the composition (internal/daemon)", "a program (cmd/…)", "outside", "no layer",
	}[l]
}

// rooms of the house, by folder; what lies within a folder belongs to it.
var rooms = map[string]layer{
	"internal/yamltree":   ground,
	"internal/tlsconf":    ground,
	"api":                 apiLayer,
	"internal/wire":       wireLayer,
	"internal/wire/rpc":   rpcLayer,
	"internal/apiv1":      forms,
	"internal/engineapi":  forms,
	"internal/record":     forms,
	"internal/event":      eventLayer,
	"internal/accept":     doers,
	"internal/access":     deciders,
	"internal/orca":       deciders,
	"internal/policy":     deciders,
	"internal/atomicfile": doers,
	"internal/backup":     doers,
	"internal/bus":        doers,
	"internal/chart":      doers,
	"internal/distance":   doers,
	"internal/filecopy":   doers,
	"internal/forward":    doers,
	"internal/gcpace":     doers,
	"internal/textpages":  doers,
	"internal/handover":   doers,
	"internal/hollow":     doers,
	"internal/hostnet":    doers,
	"internal/importer":   doers,
	"internal/k8s":        doers,
	"internal/leftover":   doers,
	"internal/loop":       doers,
	"internal/objects":    doers,
	"internal/obs":        doers,
	"internal/onthread":   doers,
	"internal/orders":     doers,
	"internal/overlay":    doers,
	"internal/ping":       doers,
	"internal/pki":        doers,
	"internal/plugin":     doers,
	"internal/proxy":      doers,
	"internal/quorum":     doers,
	// Consensus decides: time and messages come in, what is to be done goes out.
	"internal/quorum/core": deciders,
	"internal/ranges":      doers,
	"internal/relay":       doers,
	"internal/rest":        doers,
	// The client for everybody else's programs: what it imports is no part of its face.
	"client":            doers,
	"internal/runtime":  doers,
	"internal/registry": doers,
	"internal/seal":     doers,
	// It does nothing but imagine: deciders in virtual time, for the lab's experiments.
	"internal/sim":      doers,
	"internal/unixsock": doers,
	"internal/watch":    doers,
	"internal/doctor":   entrance,
	"internal/enroll":   entrance,
	"internal/hooks":    entrance,
	"internal/people":   entrance,
	"internal/tier":     entrance,
	"internal/agent":    roles,
	"internal/cluster":  roles,
	"internal/engine":   roles,
	// It runs the program in hosts of its own making and talks to what runs there by
	// its interface: it is put behind the command line as a role is, and imports none.
	"internal/lab":    roles,
	"internal/root":   roles,
	"internal/cli":    client,
	"internal/daemon": composition,
	"cmd/verge":       program,
	"cmd/verge-lab":   program,

	"e2e":            outside,
	"examples":       outside,
	"tools":          outside,
	"internal/house": outside,
}

// programs use one package each, which has all that they do, and the version that is built in.
var programs = map[string]string{"cmd/verge": "internal/daemon", "cmd/verge-lab": "internal/cli/labcmd"}

const versions = "internal/obs"

// neighbours are the arrows on one floor, from folder to folders, each with its
// reason. Add one only if both sides keep a meaning of their own.
var neighbours = map[string]struct {
	to     []string
	reason string
}{
	"internal/atomicfile": {[]string{"internal/obs"}, "a file says which version of the program wrote it"},
	"internal/backup":     {[]string{"internal/atomicfile", "internal/bus"}, "a backup is files and what a store holds"},
	"internal/bus":        {[]string{"internal/atomicfile"}, "keys, eras and the map of a store are files"},
	"internal/importer":   {[]string{"internal/k8s"}, "it reads manifests into types that are made elsewhere"},
	"internal/leftover":   {[]string{"internal/atomicfile", "internal/hostnet", "internal/runtime"}, "workers register in files; what they leave in the network has names of hostnet, and what they leave in containerd and control groups is removed as drivers do it"},
	"internal/objects":    {[]string{"internal/accept", "internal/atomicfile", "internal/bus", "internal/obs", "internal/rest"}, "objects are kept in a tier's store, asked for by its HTTP interface, and cached in files; two roles show the same figures of them; its servers wait out what passes"},
	"internal/orders":     {[]string{"internal/atomicfile"}, "it is one of its files, with a log beside it"},
	"internal/overlay":    {[]string{"internal/atomicfile", "internal/hostnet", "internal/onthread", "internal/relay"}, "the addresses given to services outlive the process; one worker of a machine has it; it enters network namespaces; a worker asks its relay"},
	"internal/distance":   {[]string{"internal/atomicfile"}, "distances outlive the process"},
	"internal/pki":        {[]string{"internal/atomicfile"}, "keys and certificates are files"},
	"internal/plugin":     {[]string{"internal/atomicfile"}, "tokens and authorities are files of a bounded size"},
	"internal/proxy":      {[]string{"internal/accept", "internal/atomicfile"}, "the ports given to services outlive the process; a gateway waits out what passes"},
	"internal/quorum":     {[]string{"internal/atomicfile"}, "a log is files"},
	"internal/relay":      {[]string{"internal/accept", "internal/atomicfile"}, "its key is a file; who has shown no certificate must not keep others out"},
	"internal/rest":       {[]string{"internal/accept", "internal/ranges", "internal/watch"}, "what is watched is served, and parts of what is stored; its server waits out what passes"},
	"client":              {[]string{"internal/atomicfile", "internal/rest"}, "the server has the same endpoints; a context is a file"},
	"internal/seal":       {[]string{"internal/atomicfile"}, "a key is a file"},
	"internal/runtime":    {[]string{"internal/atomicfile", "internal/filecopy", "internal/onthread"}, "what an engine re-adopts after a crash is a file; a path within an image goes by the image's links; children are born with what is their thread's"},
}

// exclusive are folders that only some may use.
var exclusive = map[string]struct {
	users  []string
	reason string
}{
	"internal/runtime": {[]string{"internal/engine"}, "instances are the engine's children and nobody else's"},
	"internal/overlay": {[]string{"internal/engine", "internal/lab"}, "the network of a worker has one owner; the lab compares it with WireGuard alone"},
	"internal/relay":   {[]string{"internal/engine", "internal/root", "internal/overlay"}, "a root and a worker can be a relay, and the network of a worker asks one"},
	"internal/proxy":   {[]string{"internal/engine", "internal/lab"}, "sockets of the data path must survive the agent; the lab has a router in each of its hosts"},
}

// lent are parts of exclusive folders that one other may use.
var lent = map[string]struct{ user, reason string }{
	"internal/runtime/logfile":        {"internal/agent", "it reads what instances write while there is no engine"},
	"internal/runtime/cgroup":         {"internal/leftover", "it removes the groups of an engine that is gone"},
	"internal/runtime/container":      {"internal/leftover", "it removes the containers of an engine that is gone"},
	"internal/runtime/container/ctrd": {"internal/leftover", "what a gone engine has made in containerd is found by its names"},
}

// reserved are modules of others that one folder imports for all.
var reserved = map[string]string{
	"github.com/nats-io/":    "internal/bus",
	"github.com/spf13/cobra": "internal/cli",
	// For tests: nothing of it is in the program.
	"github.com/hanwen/go-fuse/":        "internal/atomicfile/powertest",
	"github.com/anishathalye/porcupine": "internal/quorum/quorumtest",
	// Others see what internal/quorum makes of it.
	"go.etcd.io/raft/": "internal/quorum",
}

// pure are modules of others that a decider may use although they are not of the
// standard library, by folder and import path: functions without clock, I/O or
// goroutine, each with its reason.
var pure = map[string]map[string]string{
	"internal/policy/coord": {"github.com/hashicorp/serf/coordinate": "the arithmetic of Vivaldi is somebody's who runs it on thousands of nodes"},
	"internal/quorum/core": {
		"go.etcd.io/raft/v3":               "consensus is etcd's: a state machine without clock, I/O or goroutine",
		"go.etcd.io/raft/v3/confchange":    "it says what a change of the members would do",
		"go.etcd.io/raft/v3/raftpb":        "its messages",
		"go.etcd.io/raft/v3/tracker":       "what a leader knows of its followers",
		"google.golang.org/protobuf/proto": "the form of its messages",
	},
}

// within reports whether p is folder dir or lies in it.
func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// roomOf is the folder of the table that p lies in, and its layer.
func roomOf(p string) (string, layer) {
	for dir := p; dir != "." && dir != "/"; dir = path.Dir(dir) {
		if l, ok := rooms[dir]; ok {
			return dir, l
		}
	}
	return p, unknown
}

// suite reports whether p is a package for tests only, like bus/bustest.
func suite(p string) bool { return strings.HasSuffix(path.Base(p), "test") && path.Base(p) != "test" }

func importArrows(files []*file) []finding {
	var out []finding
	for _, f := range parsed(files) {
		room, from := roomOf(f.pkg())
		if from == unknown {
			out = append(out, finding{f.path, 1, fmt.Sprintf("package %s has no room: give it one in the table of layers_test.go, or move the code to where it belongs", f.pkg())})
			continue
		}
		exempt := (f.isTest() || suite(f.pkg())) && from != deciders
		if from == outside || exempt {
			continue
		}
		for _, i := range f.imports() {
			if why := forbidden(f, room, from, i); why != "" {
				out = append(out, finding{f.path, i.line, why})
			}
		}
	}
	return out
}

// forbidden says why a file of a room may not import i; "" if it may.
func forbidden(f *file, room string, from layer, i imported) string {
	own := i.own()
	if own == "" {
		return foreign(f, room, from, i)
	}
	to, layerOf := roomOf(own)
	switch {
	case suite(own) && !f.isTest():
		return fmt.Sprintf("%s is for tests only: import it from _test.go files", own)
	case layerOf == outside:
		return fmt.Sprintf("%s stands beside the house: nothing may depend on it", own)
	case from == program && own != programs[room] && own != versions:
		return fmt.Sprintf("the program uses %s alone: move this there instead of importing %s", programs[room], own)
	case from == deciders && layerOf == deciders && decider(own) != decider(f.pkg()):
		return fmt.Sprintf("deciders do not use each other: let the caller combine them instead of importing %s", own)
	case to == room:
		return inRoom(f, room, own, from)
	case layerOf > from:
		return fmt.Sprintf("%s is %s, above %s: turn the arrow round with a small interface on this side", own, layerOf, from)
	case layerOf == from && from == doers && slices.Contains(neighbours[room].to, to):
	case layerOf == from:
		return fmt.Sprintf("%s is %s like this package: let the level above connect them, or add the arrow to the neighbours in layers_test.go with its reason", own, layerOf)
	}
	if x, ok := exclusive[to]; ok && !slices.Contains(x.users, room) && lent[own].user != room {
		return fmt.Sprintf("only %s uses %s: %s", strings.Join(x.users, ", "), to, x.reason)
	}
	return ""
}

// decider is the folder of a decision: a decider may have packages within it.
func decider(p string) string {
	name, in := strings.CutPrefix(p, "internal/policy/")
	if !in {
		return p
	}
	name, _, _ = strings.Cut(name, "/")
	return "internal/policy/" + name
}

// common are parts of a room that its other parts share.
var common = map[string]string{
	"internal/rest/transport":       "nodes ask as clients do",
	"internal/runtime/logfile":      "every driver writes the same rotated files",
	"internal/overlay/wg":           "paths to peers are set at the device",
	"internal/runtime/cgroup":       "every driver limits by the same control groups",
	"internal/runtime/ending":       "every driver tells the end of a task to many",
	"internal/atomicfile/statefile": "a book is a file with a form, too",
	"internal/runtime/beside":       "commands end with their task in every driver",
	"internal/importer/source":      "every format is read from files that know their lines",
	"internal/importer/report":      "every format notes what becomes of its fields",
	"internal/importer/draft":       "every format makes the same services",
}

// assembled are rooms whose outer package puts the parts together, instead of
// being the contract that they keep.
var assembled = map[string]string{
	"internal/importer": "the formats know nothing of each other; the outer package finds out which one a source has",
	"internal/overlay":  "the parts of a worker's network know nothing of each other; one coordinator has them all",
	"internal/proxy":    "queues, the fast path of HTTP/1.1 and what a gateway matches know nothing of each other; the router has them all",
}

// ordered are rooms whose parts build upon each other: each may use those before it.
var ordered = map[string]struct {
	parts  []string
	reason string
}{
	"internal/bus": {
		[]string{
			"pieces", "memtable", "logrecord", "stream", "credentials", "handshakes", "presence", "busconn",
			"logstore", "blobstore", "busserver",
		},
		"what is kept in memory and its form below streams, the stores above them, the server above all",
	},
	"internal/proxy": {
		[]string{
			"counters", "netconn", "sockets", "relay", "h2guard", "http1", "pieces", "frames", "h2client", "h2server", "queue", "certs", "ingress", "httpmsg", "failure",
			"upstream", "entries", "local", "data", "router", "call", "forward", "fastpath", "gateway",
		},
		"connections below messages, messages below the router, the router below what clients meet",
	},
}

// inRoom keeps the parts of a doer in order: its outer package is the contract,
// which knows nothing of the parts below it (drivers, protocols over the bus);
// parts know the contract and themselves, not each other. Roles and the client
// divide themselves as they like.
func inRoom(f *file, room, own string, l layer) string {
	here, there := part(f.pkg(), room), part(own, room)
	switch {
	case l != doers || there == "" || here == there:
		return ""
	case here == "" && assembled[room] != "":
		return ""
	case here == "":
		return fmt.Sprintf("%s lies within this package and implements or uses it: the outer one knows nothing of it", own)
	case common[own] != "":
		return ""
	case below(ordered[room].parts, there, here):
		return ""
	default:
		return fmt.Sprintf("%s is a sibling: move what both need up to %s, or name it in common with the reason", own, room)
	}
}

// below reports whether a part comes before another one in the order of a room.
func below(parts []string, part, other string) bool {
	i, j := slices.Index(parts, part), slices.Index(parts, other)
	return i >= 0 && i < j
}

// part is the name of the first folder below room on the way to pkg.
func part(pkg, room string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(pkg, room), "/"), "/")
	return first
}

func foreign(f *file, room string, from layer, i imported) string {
	for prefix, owner := range reserved {
		if strings.HasPrefix(i.path, prefix) && !within(room, owner) {
			return fmt.Sprintf("only %s imports %s: use what it offers", owner, strings.TrimSuffix(prefix, "/"))
		}
	}
	if from == deciders && !i.std() && (!f.isTest() || i.path != "pgregory.net/rapid") && pure[f.pkg()][i.path] == "" {
		return fmt.Sprintf("deciders use the standard library alone: %s has to go", i.path)
	}
	return ""
}

func TestImportArrows(t *testing.T) { check(t, importArrows) }

func TestImportArrowsFindsViolations(t *testing.T) {
	src := func(pkg string, imports ...string) string {
		s := "package " + pkg + "\n"
		for _, i := range imports {
			s += "import _ \"" + i + "\"\n"
		}
		return s
	}
	own := func(p string) string { return module + "/" + p }
	plant(t, importArrows, map[string]planted{
		"downwards": {files: map[string]string{
			"cmd/verge/main.go":                src("main", own("internal/daemon")),
			"cmd/verge-lab/main.go":            src("main", own("internal/cli/labcmd"), own("internal/obs")),
			"internal/daemon/a.go":             src("daemon", own("internal/cli"), own("internal/root")),
			"internal/cli/a.go":                src("cli", own("internal/root"), own("internal/obs"), "github.com/spf13/cobra"),
			"internal/root/a.go":               src("root", own("internal/bus"), own("internal/bus/exchange"), own("internal/policy/life"), own("internal/enroll")),
			"internal/engine/a.go":             src("engine", own("internal/runtime/process"), own("internal/proxy")),
			"internal/bus/a.go":                src("bus", "github.com/nats-io/nats.go", own("internal/atomicfile")),
			"internal/bus/exchange/a.go":       src("exchange", own("internal/bus"), own("internal/wire")),
			"internal/policy/life/a.go":        src("life", "time", own("internal/wire"), own("api")),
			"internal/policy/life/a_test.go":   src("life", "pgregory.net/rapid", "testing"),
			"internal/wire/a.go":               src("wire", own("api")),
			"internal/apiv1/a.go":              src("apiv1", own("internal/wire")),
			"internal/cluster/a_test.go":       src("cluster", own("internal/root")),
			"internal/bus/bustest/suite.go":    src("bustest", own("internal/bus"), own("internal/pki")),
			"examples/guestbook/front/main.go": src("main", own("internal/bus")),
		}},
		"upwards":          {map[string]string{"internal/wire/a.go": src("wire", own("internal/bus"))}, []string{"internal/wire/a.go:2 above"}},
		"views":            {map[string]string{"internal/wire/a.go": src("wire", own("internal/apiv1"))}, []string{"internal/wire/a.go:2 above"}},
		"forms":            {map[string]string{"internal/apiv1/a.go": src("apiv1", own("internal/record"))}, []string{"internal/apiv1/a.go:2 a form"}},
		"api":              {map[string]string{"api/a.go": src("api", own("internal/wire"))}, []string{"api/a.go:2 above"}},
		"roles":            {map[string]string{"internal/root/a.go": src("root", own("internal/cluster"))}, []string{"internal/root/a.go:2 a role like"}},
		"doers":            {map[string]string{"internal/obs/a.go": src("obs", own("internal/bus"))}, []string{"internal/obs/a.go:2 a doer like"}},
		"deciders":         {map[string]string{"internal/policy/place/a.go": src("place", own("internal/policy/life"))}, []string{"internal/policy/place/a.go:2 do not use each other"}},
		"tests of decider": {map[string]string{"internal/policy/place/a_test.go": src("place", own("internal/bus"))}, []string{"internal/policy/place/a_test.go:2 above"}},
		"pure module":      {files: map[string]string{"internal/policy/coord/a.go": src("coord", "github.com/hashicorp/serf/coordinate")}},
		"serf elsewhere":   {map[string]string{"internal/policy/place/a.go": src("place", "github.com/hashicorp/serf/coordinate")}, []string{"internal/policy/place/a.go:2 standard library"}},
		"decider's module": {map[string]string{"internal/policy/place/a.go": src("place", "pgregory.net/rapid")}, []string{"internal/policy/place/a.go:2 standard library"}},
		"program":          {map[string]string{"cmd/verge/main.go": src("main", own("internal/root"))}, []string{"cmd/verge/main.go:2 internal/daemon alone"}},
		"nats":             {map[string]string{"internal/root/a.go": src("root", "github.com/nats-io/nats.go")}, []string{"internal/root/a.go:2 only internal/bus"}},
		"cobra":            {map[string]string{"internal/root/a.go": src("root", "github.com/spf13/cobra")}, []string{"internal/root/a.go:2 only internal/cli"}},
		"runtime":          {map[string]string{"internal/agent/a.go": src("agent", own("internal/runtime/process"))}, []string{"internal/agent/a.go:2 only internal/engine"}},
		"logs of runtime":  {files: map[string]string{"internal/agent/a.go": src("agent", own("internal/runtime/logfile"))}},
		"proxy in client":  {map[string]string{"internal/cli/a.go": src("cli", own("internal/proxy"))}, []string{"internal/cli/a.go:2 only internal/engine"}},
		"inwards":          {map[string]string{"internal/bus/a.go": src("bus", own("internal/bus/exchange"))}, []string{"internal/bus/a.go:2 lies within"}},
		"parts": {files: map[string]string{
			"internal/runtime/process/a.go": src("process", own("internal/runtime"), own("internal/runtime/cgroup"), own("internal/runtime/logfile")),
			"internal/runtime/cgroup/a.go":  src("cgroup", own("internal/runtime")),
			"internal/cli/a.go":             src("cli", own("internal/cli/table")),
		}},
		"assembled":   {files: map[string]string{"internal/overlay/a.go": src("overlay", own("internal/overlay/addr"))}},
		"parts of it": {map[string]string{"internal/overlay/link/a.go": src("link", own("internal/overlay/addr"))}, []string{"internal/overlay/link/a.go:2 sibling"}},
		"in order":    {files: map[string]string{"internal/proxy/netconn/a.go": src("netconn", own("internal/proxy/counters"))}},
		"backwards":   {map[string]string{"internal/proxy/counters/a.go": src("counters", own("internal/proxy/netconn"))}, []string{"internal/proxy/counters/a.go:2 sibling"}},
		"siblings":    {map[string]string{"internal/runtime/wasm/a.go": src("wasm", own("internal/runtime/process"))}, []string{"internal/runtime/wasm/a.go:2 sibling"}},
		"suite":       {map[string]string{"internal/root/a.go": src("root", own("internal/bus/bustest"))}, []string{"internal/root/a.go:2 for tests only"}},
		"outside":     {map[string]string{"internal/root/a.go": src("root", own("tools/x"))}, []string{"internal/root/a.go:2 beside the house"}},
		"no room":     {map[string]string{"internal/misc/a.go": src("misc")}, []string{"internal/misc/a.go:1 has no room"}},
	})
}

// The tables themselves: what they name must be rooms of the right kind.
func TestTablesAreConsistent(t *testing.T) {
	for from, n := range neighbours {
		for _, to := range n.to {
			if rooms[from] != doers || rooms[to] != doers || n.reason == "" {
				t.Errorf("neighbours: %s → %s must be doers, with a reason", from, to)
			}
		}
	}
	for room, x := range exclusive {
		if rooms[room] != doers || len(x.users) == 0 || x.reason == "" {
			t.Errorf("exclusive: %s", room)
		}
	}
}
