package draft

import (
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/pattern"
)

// With Docker and Oakestra all ports of a container can be reached, even undeclared ones; with
// Verge only those of the descriptor. So a port that others name in an address (db:5432,
// http://10.30.0.2:8080/) is added to the service.

// addressRE finds hosts with a port that are not part of a name, a version or a longer number.
var addressRE = pattern.Lazy(`(//|@)?\b([A-Za-z0-9][-\w.]*):(\d{2,5})($|[^-\w.])`)

// maxAddresses bounds the addresses found in one text, maxReached the ports added to a service.
const (
	MaxAddresses = 100
	maxReached   = 32
)

// leastReached is the least port that is not taken for the tag of an image: redis:7.
const leastReached = 80

// HostPort is a host and a port in a text.
type HostPort struct {
	Host string
	Port int
}

// String writes host:port.
func (a HostPort) String() string { return a.Host + ":" + strconv.Itoa(a.Port) }

// Addresses returns the addresses in texts.
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

// Reach adds a TCP port that others use to a service. It says whether the service had none of this
// number.
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

// knownPorts are the default ports of common images, by the last part of their names.
var knownPorts = map[string]int{
	"postgres": 5432, "postgresql": 5432, "postgis": 5432, "timescaledb": 5432, "pgvector": 5432, "pgvecto-rs": 5432,
	"mysql": 3306, "mariadb": 3306, "percona": 3306,
	"redis": 6379, "valkey": 6379, "keydb": 6379, "memcached": 11211, "mongo": 27017, "mongodb": 27017,
	"rabbitmq":      5672,
	"nats":          4222,
	"elasticsearch": 9200, "opensearch": 9200, "kafka": 9092, "zookeeper": 2181, "influxdb": 8086, "minio": 9000,
	"cassandra":         9042,
	"eclipse-mosquitto": 1883, //nolint:misspell // as it calls itself
	"clickhouse-server": 8123, "couchdb": 5984, "nginx": 80, "httpd": 80, "caddy": 80, "traefik": 80,
}

// KnownPort is the default port of an image, 0 if unknown.
func KnownPort(image string) (number int, name string) {
	image, _, _ = strings.Cut(image, "@")
	name = image[strings.LastIndexByte(image, '/')+1:]
	name, _, _ = strings.Cut(name, ":")
	return knownPorts[name], name
}
