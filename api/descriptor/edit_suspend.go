package descriptor

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/words"
	"github.com/verge-edge/verge/internal/yamltree"
)

// Suspended returns source with job.suspend of one service set, and what it then says, as
// Scaled does with replicas. app is what source says; it is not changed. The error says
// what is wrong with the name.
func Suspended(source []byte, app *api.Application, service string, suspend bool) ([]byte, *api.Application, error) {
	s := app.Services[service]
	if s == nil {
		return nil, nil, fmt.Errorf("there is no service %s in application %s, but %s", words.Quote(service), app.Application,
			strings.Join(app.ServiceNames(), ", "))
	}
	if s.Job == nil {
		return nil, nil, fmt.Errorf("%s is no job: it goes on, and its descriptor says neither job nor cron", service)
	}
	return changed(app, service, func(s *api.Service) {
		job := *s.Job
		job.Suspend, s.Job = suspend, &job
	}, suspended(source, service, strconv.FormatBool(suspend)))
}

// suspended are the ways in which job.suspend could be written into source; see rewritten.
func suspended(source []byte, service, value string) [][]byte {
	body := bytes.TrimPrefix(source, []byte("\ufeff"))
	inJSON := yamltree.IsJSON(body)
	svc := tree(body, newReport("", body)).Child("services").Child(service)
	if svc == nil || len(svc.Keys) == 0 {
		return nil
	}
	// before writes a key in front of the first one of a mapping.
	before := func(n *yamltree.Node, key, value string) [][]byte {
		at := offset(body, n.Keys[0].Pos)
		if inJSON {
			return [][]byte{splice(body, at, at, strconv.Quote(key)+": "+value+", ")}
		}
		indent := string(body[bytes.LastIndexByte(body[:at], '\n')+1 : at])
		return [][]byte{splice(body, at, at, key+": "+value+"\n"+indent), splice(body, at, at, key+": "+value+", ")}
	}
	job := svc.Child("job")
	switch {
	case job == nil && inJSON:
		return before(svc, "job", `{"suspend": `+value+"}")
	case job == nil:
		return before(svc, "job", "{suspend: "+value+"}")
	case job.Kind != yamltree.Mapping || len(job.Keys) == 0:
		at := offset(body, job.Pos)
		if !bytes.HasPrefix(body[at:], []byte("{}")) {
			return nil
		}
		if inJSON {
			return [][]byte{splice(body, at, at+2, `{"suspend": `+value+"}")}
		}
		return [][]byte{splice(body, at, at+2, "{suspend: "+value+"}")}
	}
	old := job.Child("suspend")
	if old == nil {
		return before(job, "suspend", value)
	}
	at := offset(body, old.Pos)
	if old.Kind != yamltree.Scalar || !bytes.HasPrefix(body[at:], []byte(old.Text)) {
		return nil
	}
	return [][]byte{splice(body, at, at+len(old.Text), value)}
}
