package importer

import (
	"errors"

	"github.com/verge-edge/verge/internal/importer/compose"
	"github.com/verge-edge/verge/internal/importer/compose/dotenv"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/kubernetes"
	"github.com/verge-edge/verge/internal/importer/oakestra"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// Types that the packages below share.
type (
	// Source is one file.
	Source = source.File
	// Options of Import.
	Options = draft.Options
	// Kind of a source.
	Kind = draft.Kind
	// App is an imported application.
	App = draft.App
	// Note says what happened to a field of a source.
	Note = report.Note
	// Level is the severity of a Note.
	Level = report.Level
)

// Kinds of sources.
const (
	Compose    = draft.Compose
	Kubernetes = draft.Kubernetes
	Oakestra   = draft.Oakestra
)

// Kinds lists all kinds.
func Kinds() []Kind { return draft.Kinds() }

// Levels of a Note.
const (
	// Said: carried over, with a remark.
	Said = report.Said
	// Lost: not carried over.
	Lost = report.Lost
	// Refused: the source cannot be imported.
	Refused = report.Refused
)

// MaxSourceBytes bounds one file.
const MaxSourceBytes = source.MaxBytes

// ComposeNames are the files that docker compose looks for in a folder, in order.
var ComposeNames = compose.FileNames

// Variables reads a file of variables as docker compose reads .env. A value may refer to variables
// above it and to those of before, which vars includes; unset names the others that it refers to,
// which stay empty. Errors show no value.
func Variables(data []byte, before map[string]string) (vars map[string]string, unset []string, err error) {
	return dotenv.Parse(data, before)
}

// Result of Import. Without an error all Apps can be used.
type Result struct {
	Apps  []App
	Notes []Note
	// Lost: something was not carried over.
	Lost bool
}

// ErrRefused is the error if no descriptor could be made; the Notes of the Result say why.
var ErrRefused = errors.New("nothing could be made of it")

// Import makes descriptors of sources. If it fails, the result has only notes.
func Import(sources []Source, o Options) (*Result, error) {
	if o.MemoryLimit == 0 {
		o.MemoryLimit = 1 << 30
	}
	r := &report.Report{}
	var files []string
	folders := map[string]string{}
	known := &oakestra.Registry{Known: map[string]string{}, Addresses: map[string]string{}}
	var manifests []*source.Document
	var all []*draft.Draft
	for _, s := range sources {
		files = append(files, s.Name)
		folders[s.Name] = s.Folder
		docs, err := source.Parse(s)
		if err != nil {
			n := Note{Level: Refused, File: s.Name, Text: err.Error()}
			if p := (*source.Problem)(nil); errors.As(err, &p) {
				n.Line = p.Line
			}
			r.Add(n)
			continue
		}
		if text := recipe(s, docs); text != "" {
			r.Add(Note{Level: Refused, File: s.Name, Line: docs[0].Root.Line, Text: text})
			continue
		}
		kind, why := o.Kind, ""
		if kind == "" {
			kind, why = detect(docs)
		}
		level := Said
		if kind == Compose { // compose refuses them; elsewhere the last value wins
			level = Refused
		}
		for _, d := range docs {
			r.Duplicates(d, level)
		}
		switch {
		case len(docs) == 0:
			r.Add(Note{Level: Refused, File: s.Name, Text: "says nothing"})
		case kind == Compose:
			all = append(all, compose.Import(s, docs, o, r)...)
		case kind == Oakestra:
			all = append(all, oakestra.Import(docs, o, r, known)...)
		case kind == Kubernetes:
			manifests = append(manifests, docs...)
		default:
			r.Add(Note{Level: Refused, File: s.Name, Line: docs[0].Root.Line, Text: why})
		}
	}
	if len(manifests) > 0 {
		all = append(all, kubernetes.Import(manifests, folders, o, r)...)
	}
	res := &Result{}
	seen := map[string]*draft.Draft{}
	for _, m := range all {
		if o.Namespace != "" {
			m.App.Namespace = o.Namespace
		}
		if other := seen[m.App.Application]; other != nil {
			r.At(Refused, m.Doc, nil,
				"makes the application %s, and so does %s: import one of them by itself, with another name (--name)",
				m.App.Application, other.From[0])
			continue
		}
		seen[m.App.Application] = m
		res.Apps = append(res.Apps, m.Write(r))
	}
	res.Notes, res.Lost = r.Sorted(files), r.Lost
	if r.Refused || len(res.Apps) == 0 {
		res.Apps = nil
		return res, ErrRefused
	}
	return res, nil
}
