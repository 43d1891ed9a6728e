package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/rest"
)

func putAt(c *client.Client, namespace, name, content string) error {
	_, err := c.Objects.Put(context.Background(),
		rest.ObjectUpload{Namespace: namespace, Name: name, Size: int64(len(content)),
			Body: strings.NewReader(content)})
	return err
}

func getAt(c *client.Client, namespace, name string) (string, apiv1.ObjectView, error) {
	got, err := c.Objects.Get(context.Background(), namespace, name, "")
	if err != nil {
		return "", got.View, err
	}
	data, err := io.ReadAll(got.Body)
	return string(data), got.View, errors.Join(err, got.Body.Close())
}

// fetchURL asks as an instance does.
func fetchURL(method, url, body, ranged string) (status int, text string, err error) {
	req, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if ranged != "" {
		req.Header.Set("Range", ranged)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), errors.Join(err, resp.Body.Close())
}

// An object goes from the root to a cluster, to its worker, to an instance; and stays
// there when who is above is away.
func TestObjectsThroughTheTiers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("instances run on Linux")
	}
	s := &tiers{t: t, dir: t.TempDir(), log: slog.New(slog.DiscardHandler), details: true}
	s.startRoot()
	s.tokenFile = s.path("none")
	token, err := s.root.NewClusterToken(t.Context(), "edge")
	if err != nil {
		t.Fatal(err)
	}
	s.startCluster(token)
	_, stop := s.startReal()
	defer stop()
	s.eventually("the worker is there", s.connected)
	atRoot, atEdge := s.client("root"), s.client("edge")
	for name, content := range map[string]string{"a": "0123456789", "later": "x"} {
		if err := putAt(atRoot, "default", name, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := putAt(atRoot, "nobody", "a", "x"); code(err) != "no-such-namespace" && err == nil {
		t.Errorf("put in a namespace that is not there: %v", err)
	}
	// A cluster that runs nothing of a namespace is given none of its objects.
	if _, _, err := getAt(atEdge, "default", "a"); code(err) != "forbidden" {
		t.Errorf("a cluster that runs nothing of the namespace: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := atRoot.Applications.Apply(t.Context(),
		[]byte(fmt.Sprintf("application: shop\nservices:\n  web:\n    command: [%q]\n"+
			"    env: {TEST_INSTANCE: \"1\"}\n    ports: [{name: http}]\n", self)), false); err != nil {
		t.Fatal(err)
	}
	s.eventually("it runs", func() error {
		app, err := atRoot.Applications.Get(t.Context(), "shop")
		if err == nil && !app.Holds {
			err = errors.New(app.Message)
		}
		return err
	})
	got, v, err := getAt(atEdge, "default", "a")
	if got != "0123456789" || err != nil || !v.Copy || v.Origin != "root" {
		t.Errorf("at the cluster it is %q, %+v, %v", got, v, err)
	}

	var objects string
	s.eventually("the instance is asked", func() error {
		entries, err := atEdge.Workers.Entries(t.Context(), "edge", "w1")
		if err != nil || len(entries) == 0 {
			return fmt.Errorf("%v, %w", entries, err)
		}
		status, text, err := fetchURL("GET", "http://"+entries[0].Addr+"/objects", "", "")
		if err == nil && status != 200 {
			err = errors.New(text)
		}
		objects = text
		return err
	})
	for _, c := range []struct {
		method, url, body, ranged string
		status                    int
		want                      string
	}{
		{"GET", objects + "/a", "", "", 200, "0123456789"},
		{"GET", objects + "/a", "", "bytes=3-5", 206, "345"},
		{"GET", objects + "/none", "", "", 404, "no-such-object"},
		{"GET", strings.TrimSuffix(objects, "default") + "bank/a", "", "", 403, "not-yours"},
		{"PUT", objects + "/made/here", "by an instance", "", 200, `"origin":"edge"`},
		{"GET", objects + "/made/here", "", "", 200, "by an instance"},
	} {
		if status, text, err := fetchURL(c.method, c.url, c.body, c.ranged); status != c.status ||
			!strings.Contains(text, c.want) || err != nil {
			t.Errorf("%s %s %s: %d %q, %v", c.method, c.url, c.ranged, status, text, err)
		}
	}
	if list, err := atEdge.Objects.List(t.Context(), ""); err != nil || len(list) != 2 || list[1].Name != "made/here" ||
		list[1].Origin != "edge" || list[1].Copy {
		t.Errorf("the cluster has %+v, %v", list, err)
	}
	s.nodeRights()

	s.root.Close()
	if got, v, err := getAt(atEdge, "default", "a"); got != "0123456789" || err != nil || v.Stale &&
		v.Origin != "root" {
		t.Errorf("without a root: %q, %+v, %v", got, v, err)
	}
	if _, _, err := getAt(atEdge, "default", "later"); code(err) != "root-away" {
		t.Errorf("what was not copied, without a root: %v", err)
	}
	if err := putAt(atEdge, "default", "site", "put without a root"); err != nil {
		t.Errorf("put at the site without a root: %v", err)
	}
	s.cluster.Close()
	if status, text, err := fetchURL("GET", objects+"/a", "", ""); status != 200 || text != "0123456789" || err != nil {
		t.Errorf("kept, without a cluster: %d %q, %v", status, text, err)
	}
	if status, text, err := fetchURL("GET", objects+"/site", "", ""); status != 503 ||
		!strings.Contains(text, "cluster-away") || err != nil {
		t.Errorf("not kept, without a cluster: %d %q, %v", status, text, err)
	}
	s.startRoot()
	defer s.root.Close()
	s.startCluster("")
	defer s.cluster.Close()
	s.eventually("what was put at the site is there after a restart", func() error {
		status, text, err := fetchURL("GET", objects+"/site", "", "")
		if err == nil && (status != 200 || text != "put without a root") {
			err = fmt.Errorf("%d %s", status, text)
		}
		return err
	})
}

// nodeRights tries what the certificates of a worker and a cluster may ask for over
// HTTP, beside objects of what they run.
func (s *tiers) nodeRights() {
	s.t.Helper()
	for dir, c := range map[string]struct{ addr, server string }{
		s.path("w1", engineapi.IdentityDir): {s.api, pki.ClusterName("edge")},
		s.path("edge"):                      {s.root.Addr(), pki.RootName},
	} {
		id, err := pki.LoadIdentity(dir)
		if err != nil {
			s.t.Fatal(err)
		}
		conf := func() *tls.Config { return id.ClientTLS(c.server) }
		client, err := client.New(client.Context{Server: "https://" + c.addr}, client.WithTLS(conf()))
		if err != nil {
			s.t.Fatal(err)
		}
		defer client.Close()
		if got, _, err := getAt(client, "default", "a"); got != "0123456789" || err != nil {
			s.t.Errorf("%s: its own objects: %q, %v", dir, got, err)
		}
		if _, _, err := getAt(client, "bank", "a"); code(err) != "forbidden" {
			s.t.Errorf("%s: objects of a namespace that it runs nothing of: %v", dir, err)
		}
		if _, err := client.Applications.List(context.Background()); code(err) != "not-for-nodes" {
			s.t.Errorf("%s: applications: %v", dir, err)
		}
		if _, err := client.Objects.List(context.Background(), ""); code(err) != "not-for-nodes" {
			s.t.Errorf("%s: a list of objects: %v", dir, err)
		}
	}
}
