package root

import (
	"fmt"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
)

const (
	// maxCallers bounds the names that are remembered; they are of certificates that
	// this root or one that it is a copy of has signed.
	maxCallers = 256
	// callerFor is how long one that has not called again is spoken of.
	callerFor = 10 * time.Minute
)

// callers are the clusters that have shown a certificate on the link, known or not:
// one that is not is turned away without a word that its operator could read, so
// that it must be said here.
type callers struct {
	mu   sync.Mutex
	seen map[string]time.Time // guarded by mu
}

func (c *callers) note(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]time.Time{}
	}
	if _, again := c.seen[cluster]; again || len(c.seen) < maxCallers {
		c.seen[cluster] = time.Now()
	}
}

// strangers are the problems of clusters that call and are not known here.
func (c *callers) strangers(known map[string]bool, now time.Time) (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range records.SortedKeys(c.seen) {
		if known[name] || now.Sub(c.seen[name]) > callerFor {
			continue
		}
		out = append(out, fmt.Sprintf("cluster %s asks to be let in and is not known here: it was removed, or joined after the backup that this root was restored from; "+
			"what runs there goes on. To let it join again: verge token create --cluster %s", name, name))
	}
	return out
}
