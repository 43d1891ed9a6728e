package daemonflags

import (
	"maps"
	"testing"

	"github.com/verge-edge/verge/internal/engineapi"
)

func TestMirrorsOfRegistries(t *testing.T) {
	var p engineapi.PullConfig
	if err := settlePull(&p, []string{"docker.io=https://m.test:5000/", "x.test:1=http://m.test"}); err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"docker.io": "https://m.test:5000",
		"x.test:1": "http://m.test"}; !maps.Equal(p.Mirrors, want) {
		t.Errorf("%v", p.Mirrors)
	}
	if err := settlePull(&engineapi.PullConfig{Hosts: "certs.d"}, nil); err == nil {
		t.Error("a relative folder is accepted")
	}
	for _, bad := range [][]string{
		{""}, {"docker.io"}, {"docker.io="}, {"docker.io=m.test"}, {"docker.io=ftp://m.test"}, {"=https://m.test"},
		{"docker.io/x=https://m.test"}, {"docker.io=https://m.test/v2"}, {"docker.io=https://user:pw@m.test"},
		{"docker.io=https://a.test", "docker.io=https://b.test"},
	} {
		if err := settlePull(&engineapi.PullConfig{}, bad); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}
