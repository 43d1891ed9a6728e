package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// packageGateway is where requests come to what runs in a debian.
const packageGateway = "127.0.0.1:8480"

// packagePage is an application there that is asked while its package is upgraded.
const packagePage = `application: page
services:
  web:
    command: [testprogram]
    ports: [{name: http, ingress: {host: page.test}}]
    readiness: {http: {path: /healthz}}
`

// client sends requests from its network, each on a connection of its own.
func (d *debian) client() *http.Client {
	leader := must[int](d.t)(strconv.Atoi(d.leader))
	return &http.Client{Timeout: cliLimit, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (c net.Conn, err error) {
		err = within(d.t, leader, func() error {
			c, err = (&net.Dialer{}).DialContext(ctx, network, addr)
			return err
		})
		return c, err
	}}}
}

// engines are the processes of engines in it.
func (d *debian) engines() map[string]bool {
	out := map[string]bool{}
	// Not grep alone, which would find itself.
	for pid := range strings.FieldsSeq(d.try("cd /proc; list=$(echo [0-9]*/cmdline); grep -lzx engine $list; true")) {
		out[pid] = true
	}
	return out
}

// packageUpgrades installs the package over the one that is there, while an answer of an
// application is on its way and others are asked for.
func packageUpgrades(t *testing.T, d *debian, verge, deb string) {
	t.Helper()
	d.copy(filepath.Join(programs.dir, "testprogram"), "/usr/local/bin/testprogram")
	d.sh("chmod 755 /usr/local/bin/testprogram; cat > /root/page.yaml <<'EOF'\n%sEOF\n%s apply /root/page.yaml", packagePage, verge)
	client := d.client()
	ask := func() error {
		_, err := fetchBy(client, packageGateway, "page.test", "/whoami")
		return err
	}
	eventually(t, 20*time.Second, "the gateway answers", ask)
	long := beginStreamBy(t, &http.Client{Transport: client.Transport}, packageGateway, "page.test")
	eventually(t, 20*time.Second, "there is a stream", func() error { return long.beyond(2) })
	before := d.engines()
	if len(before) != 1 {
		t.Fatalf("engines before the upgrade: %v", before)
	}
	ctx, enough := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	var refused []error
	asked := 0
	asking.Go(func() {
		for ; ctx.Err() == nil; asked++ {
			if err := ask(); err != nil {
				refused = append(refused, fmt.Errorf("request %d: %w", asked, err))
			}
		}
	})
	said := d.sh("dpkg -i %s 2>&1", deb)
	enough()
	asking.Wait()
	if len(refused) > 0 || asked < 10 {
		t.Errorf("of %d requests %d failed while the package was upgraded: %v\n%s", asked, len(refused), errors.Join(refused...), said)
	}
	long.mu.Lock()
	last := long.last
	long.mu.Unlock()
	eventually(t, 20*time.Second, "the stream goes on", func() error { return long.beyond(last + 20) })
	after := d.engines()
	for pid := range before {
		if !after[pid] {
			t.Errorf("the engine before is gone, and a stream goes through it: %v before, %v after", before, after)
		}
	}
	if len(after) != 2 {
		t.Errorf("the engine has not handed over: %v before, %v after\n%s", before, after, said)
	}
	long.close()
	eventually(t, 20*time.Second, "the engine before ends with its last connection", func() error {
		if now := d.engines(); len(now) != 1 {
			return fmt.Errorf("engines %v", now)
		}
		return nil
	})
	t.Logf("of %d requests none failed while the package was upgraded", asked)
}
