package draft

import (
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/pattern"
)

// With Docker and Oakestra all ports of a container can be reached, whether its file has
// them or not. With Verge it is those of the descriptor, so that one which others name in
// an address (db:5432, http://10.30.0.2:8080/) becomes one of the service.

// addressRE finds hosts with a port. What stands around them is not a part of a name, of a
// version or of a longer number.
var addressRE = pattern.Lazy(`(//|@)?\b([A-Za-z0-9][-\w.]*):(\d{2,5})($|[^-\w.])`)

// maxAddresses is the most that is looked for in one text, and maxReached the most ports
// that a service gets by it.
const (
	MaxAddresses = 100
	maxReached   = 32
)

// leastReached is the least port of what may be a tag of an image: redis:7.
const leastReached = 80

// HostPort is a host and a port that a text names.
type HostPort struct {
	Host string
	Port int
}

// String writes host:port.
func (a HostPort) String() string { return a.Host + ":" + strconv.Itoa(a.Port) }

// Addresses are those in texts.
func Addresses(texts ...string) (out []HostPort) {
	for _, text := range texts {
		for _, m := range addressRE().FindAllStringSubmatch(text, MaxAddresses) {
			n, err := strconv.Atoi(m[3])
			if err != nil || n > 65535 || n < leastReached && m[1] == "" {
				continue
			}
			if a := (HostPort{m[2], n}); !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// Reach gives a service a port over TCP that others reach it at. It says whether the service
// had none of this number.
func Reach(s *api.Service, number int) bool {
	if len(s.Ports) >= maxReached || slices.ContainsFunc(s.Ports, func(p api.Port) bool { return p.Number == number }) {
		return false
	}
	l := &Ports{List: s.Ports}
	for _, p := range s.Ports {
		l.Names.Unique(p.Name)
	}
	l.Add("", number, "")
	s.Ports = l.List
	return true
}

// knownPorts are those at which images that everybody has listen without a word, by the last
// part of their names.
var knownPorts = map[string]int{
	"postgres": 5432, "postgresql": 5432, "postgis": 5432, "timescaledb": 5432, "pgvector": 5432, "pgvecto-rs": 5432,
	"mysql": 3306, "mariadb": 3306, "percona": 3306,
	"redis": 6379, "valkey": 6379, "keydb": 6379, "memcached": 11211, "mongo": 27017, "mongodb": 27017, "rabbitmq": 5672,
	"nats":          4222,
	"elasticsearch": 9200, "opensearch": 9200, "kafka": 9092, "zookeeper": 2181, "influxdb": 8086, "minio": 9000,
	"cassandra":         9042,
	"eclipse-mosquitto": 1883, //nolint:misspell // as it calls itself
	"clickhouse-server": 8123, "couchdb": 5984, "nginx": 80, "httpd": 80, "caddy": 80, "traefik": 80,
}

// KnownPort is the port at which an image of that name listens, 0 where nobody knows.
func KnownPort(image string) (number int, name string) {
	image, _, _ = strings.Cut(image, "@")
	name = image[strings.LastIndexByte(image, '/')+1:]
	name, _, _ = strings.Cut(name, ":")
	return knownPorts[name], name
}
