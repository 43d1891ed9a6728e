package descriptor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/words"
	"github.com/verge-edge/verge/internal/yamltree"
)

// Scaled returns source with another number of replicas of one service, and what
// it then says. Nothing else of the file changes, comments and order included,
// but where the number cannot be written by itself (the service is an alias that
// others share): then the whole descriptor is written anew as JSON. app is what
// source says; it is not changed. The error says what is wrong with the name or
// the number.
func Scaled(source []byte, app *api.Application, service string, replicas int) ([]byte, *api.Application, error) {
	if app.Services[service] == nil {
		return nil, nil, fmt.Errorf("there is no service %s in application %s, but %s", words.Quote(service), app.Application,
			strings.Join(app.ServiceNames(), ", "))
	}
	if j := app.Services[service].Job; j != nil {
		return nil, nil,
			fmt.Errorf("%s is a job of %d completions, which is not scaled: change job.completions or job.parallelism in its "+
				"descriptor", service, j.Completions)
	}
	if replicas < 0 || replicas > api.MaxReplicas {
		return nil, nil, fmt.Errorf("%d replicas: a service has 0 to %d", replicas, api.MaxReplicas)
	}
	return changed(app, service, func(s *api.Service) { s.Replicas = api.Replicas{Min: replicas, Max: replicas} },
		rewritten(source, service, strconv.Itoa(replicas)))
}

// changed is app with another service, and the first of some texts that says just that; if
// none does, the descriptor is written anew.
func changed(app *api.Application, service string, change func(*api.Service), texts [][]byte) ([]byte, *api.Application,
	error) {
	next := *app
	next.Services = maps.Clone(app.Services)
	svc := *app.Services[service]
	change(&svc)
	next.Services[service] = &svc
	want, err := json.MarshalIndent(&next, "", "  ")
	if err != nil {
		return nil, nil, fmt.Errorf("write the descriptor: %w", err)
	}
	for _, text := range texts {
		// What counts is what the new text says.
		parsed, _, err := Parse("", text)
		if err != nil {
			continue
		}
		if got, err := json.MarshalIndent(parsed, "", "  "); err == nil && bytes.Equal(got, want) {
			return text, &next, nil
		}
	}
	return append(want, '\n'), &next, nil
}

// rewritten are the ways in which the number of replicas of a service could be
// written into source. Each may be wrong, and which one is right depends on the
// style that the file is written in.
func rewritten(source []byte, service, count string) [][]byte {
	body := bytes.TrimPrefix(source, []byte("\ufeff"))
	svc := tree(body, newReport("", body)).Child("services").Child(service)
	if svc == nil || len(svc.Keys) == 0 {
		return nil
	}
	value := svc.Child("replicas")
	if value == nil {
		at := offset(body, svc.Keys[0].Pos)
		line := bytes.LastIndexByte(body[:at], '\n') + 1
		indent := string(body[line:at])
		if yamltree.IsJSON(body) {
			return [][]byte{splice(body, at, at, `"replicas": `+count+", ")}
		}
		return [][]byte{
			splice(body, at, at, "replicas: "+count+"\n"+indent), // a key for each line
			splice(body, at, at, "replicas: "+count+", "),        // {in: braces}
		}
	}
	if value.Kind == yamltree.Mapping {
		text, end := body, len(body)
		// From the end, so that what comes first stays where it is.
		for i := len(value.Keys) - 1; i >= 0; i-- {
			v := value.Values[i]
			at := offset(text, v.Pos)
			if v.Kind != yamltree.Scalar || !v.Plain || at+len(v.Text) > end {
				return nil
			}
			text, end = splice(text, at, at+len(v.Text), count), at
		}
		return [][]byte{text}
	}
	at := offset(body, value.Pos)
	if value.Kind != yamltree.Scalar || !bytes.HasPrefix(body[at:], []byte(value.Text)) {
		return nil
	}
	return [][]byte{splice(body, at, at+len(value.Text), count)}
}

// offset is the place of p in source.
func offset(source []byte, p yamltree.Pos) int {
	at := 0
	for line := 1; line < p.Line; line++ {
		end := bytes.IndexByte(source[at:], '\n')
		if end < 0 {
			return len(source)
		}
		at += end + 1
	}
	for column := 1; column < p.Column && at < len(source); column++ {
		at++
		for at < len(source) && source[at]&0xc0 == 0x80 { // within a character
			at++
		}
	}
	return at
}

// splice returns a copy of source with [from, to) replaced.
func splice(source []byte, from, to int, by string) []byte {
	out := make([]byte, 0, len(source)+len(by))
	out = append(out, source[:from]...)
	out = append(out, by...)
	return append(out, source[to:]...)
}
