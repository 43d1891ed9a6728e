package schema

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

type placeOf struct {
	Cluster string `path:"cluster" maxLength:"5"`
}

// Requests become inputs, or problems that name what is wrong and show no value of it.
func TestInputs(t *testing.T) {
	type whole struct {
		placeOf
		Dry   bool      `query:"dry"`
		Max   int8      `query:"max" minimum:"0"`
		After uint64    `query:"after"`
		Since time.Time `query:"since"`
		Body  apiv1.VolumeMoveRequest
	}
	type raw struct {
		placeOf
		RawBody []byte `contentType:"application/yaml"`
	}
	const secret = "s3cr3t"
	for name, x := range map[string]struct {
		of     any
		path   string
		typ    string
		body   string
		status int
		says   string
		want   any
	}{
		"all": {whole{}, "/c?max=7&after=9&since=2026-01-02T03:04:05Z&dry",
			"application/json; charset=utf-8", `{"to":"b","more":1}`, 0, "",
			&whole{placeOf{"c"}, true, 7, 9, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
				apiv1.VolumeMoveRequest{To: "b"}}},
		"as it came":         {raw{}, "/c", "text/plain", "a: b", 0, "", &raw{placeOf{"c"}, []byte("a: b")}},
		"a long name":        {whole{}, "/cccccc", "", `{"to":"b"}`, 422, "path.cluster: ", nil},
		"too small":          {whole{}, "/c?max=-1", "", `{"to":"b"}`, 422, "query.max: ", nil},
		"too large for it":   {whole{}, "/c?max=200", "", `{"to":"b"}`, 422, "query.max: invalid integer", nil},
		"negative":           {whole{}, "/c?after=-1", "", `{"to":"b"}`, 422, "query.after: invalid integer", nil},
		"neither yes nor no": {whole{}, "/c?dry=" + secret, "", `{"to":"b"}`, 422, "query.dry: invalid boolean", nil},
		"no time":            {whole{}, "/c?since=noon", "", `{"to":"b"}`, 422, "query.since: invalid value", nil},
		"two things":         {whole{}, "/c?max=x&dry=x", "", `{"to":"b"}`, 422, "query.max: invalid integer", nil},
		"no JSON":            {whole{}, "/c", "", `{"secret":"` + secret, 400, "body: unexpected end", nil},
		"of another type":    {whole{}, "/c", "text/plain", `{"to":"b"}`, 415, "body: unknown content type", nil},
		"another shape":      {whole{}, "/c", "", `["` + secret + `"]`, 422, "body: expected object", nil},
		"no body":            {whole{}, "/c", "", "", 400, "request body is required", nil},
		"no descriptor":      {raw{}, "/c", "", "", 400, "request body is required", nil},
		"a large body":       {raw{}, "/c", "", strings.Repeat("x", 100), 413, "too large", nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := huma.Operation{OperationID: "do", MaxBodyBytes: 100, BodyReadTimeout: time.Second}
			in, err := describe(schemasOfTest(), &o, reflect.TypeOf(x.of))
			if err != nil {
				t.Fatal(err)
			}
			var got any
			var problem *wire.Problem
			mux := http.NewServeMux()
			mux.HandleFunc("POST /{cluster}",
				func(w http.ResponseWriter, r *http.Request) { got, problem = in.Read(w, r) })
			r := httptest.NewRequest(http.MethodPost, x.path, strings.NewReader(x.body))
			if x.typ != "" {
				r.Header.Set("Content-Type", x.typ)
			}
			mux.ServeHTTP(httptest.NewRecorder(), r)
			switch {
			case x.status == 0:
				if problem != nil || !reflect.DeepEqual(got, x.want) {
					t.Errorf("%+v, %+v", got, problem)
				}
			case problem == nil || problem.Status != x.status || !strings.Contains(problem.Detail, x.says) ||
				strings.Contains(problem.Detail, secret):
				t.Errorf("%+v, %+v", got, problem)
			}
		})
	}
}

// An input that no request can fill is found when a server is made.
func TestInputThatCannotBeRead(t *testing.T) {
	for _, bad := range []any{
		struct{ Stray string }{},
		struct {
			Names []string `query:"names"`
		}{},
	} {
		if _, err := describe(schemasOfTest(), &huma.Operation{OperationID: "do"}, reflect.TypeOf(bad)); err == nil {
			t.Errorf("%T is described", bad)
		}
	}
}

func schemasOfTest() huma.Registry { return New("test", time.Second).api.Components.Schemas }
