package obs

import (
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"
)

// Two processes make one text, in which each figure says whose it is and each name
// is explained once.
func TestPagesBecomeOneText(t *testing.T) {
	counts := make([]uint64, len(Bounds)+1)
	counts[0], counts[3], counts[len(Bounds)] = 2, 1, 4
	agent, err := Page("agent", []Sample{{Name: "verge_link_up", Help: "x", Value: 1}})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := Page("engine", []Sample{
		{Name: "verge_proxy_connections_total", Help: "x", Counter: true, Labels: [][2]string{{"service", "web"}},
			Value: 3},
		{Name: "http_server_request_duration_seconds", Help: "x", Labels: [][2]string{{"service", "web"}},
			Histogram: &Histogram{Counts: counts, Sum: 1.5}},
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := Text(agent, engine, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for _, want := range []string{
		`verge_link_up{process="agent"} 1`,
		`verge_proxy_connections_total{process="engine",service="web"} 3`,
		`http_server_request_duration_seconds_bucket{process="engine",service="web",le="0.005"} 2`,
		`http_server_request_duration_seconds_bucket{process="engine",service="web",le="0.05"} 3`,
		`http_server_request_duration_seconds_bucket{process="engine",service="web",le="10"} 3`,
		`http_server_request_duration_seconds_bucket{process="engine",service="web",le="+Inf"} 7`,
		`http_server_request_duration_seconds_sum{process="engine",service="web"} 1.5`,
		`http_server_request_duration_seconds_count{process="engine",service="web"} 7`,
		`verge_build_info{process="agent",role="agent"`, `verge_build_info{process="engine",role="engine"`,
		`process_cpu_seconds_total{process="agent"}`, `verge_disk_written_bytes_total{process="engine"}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %s:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "# TYPE process_cpu_seconds_total"); n != 1 {
		t.Errorf("one name is explained %d times", n)
	}
	packed, err := Pack(text)
	if err != nil || len(packed) > len(text)/3 {
		t.Errorf("%d bytes became %d, %v", len(text), len(packed), err)
	}
	back, err := Unpack(packed)
	if err != nil || !bytes.Equal(back, text) {
		t.Errorf("it came back as %d bytes, %v", len(back), err)
	}
}

// What others send may be anything.
func TestPagesAreBounded(t *testing.T) {
	if _, err := Text([]byte("not a page")); err == nil {
		t.Error("a page of nonsense was taken")
	}
	if _, err := Unpack([]byte("not packed")); err == nil {
		t.Error("nonsense was unpacked")
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	chunk := make([]byte, 1<<20)
	for range maxPage>>20 + 1 {
		if _, err := z.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Unpack(bomb.Bytes()); !errors.Is(err, errTooMuch) {
		t.Errorf("a bomb of %d bytes: %v", bomb.Len(), err)
	}
	if _, err := Page("x", []Sample{{Name: "verge_x", Help: "x",
		Histogram: &Histogram{Counts: []uint64{1}}}}); err == nil {
		t.Error("a histogram without its buckets was taken")
	}
}
