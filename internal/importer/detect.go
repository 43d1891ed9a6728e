package importer

import (
	"path"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/importer/compose"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/source"
)

// RecipeNames are the files that mark a folder as input of a tool that generates manifests: the
// files in it are not what would run.
var RecipeNames = []string{"kustomization.yaml", "kustomization.yml", "Kustomization", "Chart.yaml"}

// recipe says what to do with a source that describes how manifests are generated.
func recipe(s source.File, docs []*source.Document) string {
	if len(docs) == 0 {
		return ""
	}
	root, folder := docs[0].Root, path.Dir(strings.ReplaceAll(s.Name, `\`, "/"))
	switch named := slices.Contains(RecipeNames, s.Base()); {
	case root.Str("kind") == "Kustomization" && strings.HasPrefix(root.Str("apiVersion"), "kustomize.config.k8s.io/"),
		named && s.Base() != "Chart.yaml" && root.Child("apiVersion") == nil:
		return "is a kustomization, and no manifest: kubectl kustomize " + folder +
			" | verge import - takes what comes out"
	case root.Child("kind") == nil && root.Str("name") != "" && root.Str("version") != "" &&
		strings.HasPrefix(root.Str("apiVersion"), "v"):
		return "is a chart of Helm: " + source.HelmRemedy
	}
	return ""
}

// detect finds out the kind of documents, or says why it cannot.
func detect(docs []*source.Document) (draft.Kind, string) {
	for _, d := range docs {
		switch {
		case d.Root.Child("apiVersion") != nil && d.Root.Child("kind") != nil:
			return draft.Kubernetes, ""
		case d.Root.Child("sla_version") != nil || d.Root.Child("applications") != nil &&
			d.Root.Child("customerID") != nil:
			return draft.Oakestra, ""
		case d.Root.Child("application") != nil && d.Root.Child("services") != nil:
			return "", "is a descriptor of Verge already: verge apply takes it"
		case d.Root.Child("services") != nil || d.Root.Child("include") != nil:
			return draft.Compose, ""
		case d.Root.Child("api_version") != nil && d.Root.Child("applications") != nil,
			d.Root.Child("microservices") != nil:
			return draft.Oakestra, ""
		case compose.BeforeServices(d.Root):
			return draft.Compose, ""
		case d.Root.Child("resources") != nil && d.Root.Child("resources").Kind == source.List:
			return "", "is not a manifest of Kubernetes: if it is a kustomization, kustomize build makes manifests " +
				"of its folder: kustomize build DIRECTORY | verge import -"
		}
	}
	return "", "is neither a compose file (services), nor an Oakestra descriptor (sla_version), nor a manifest of " +
		"Kubernetes (apiVersion and kind): say which it is by verge import compose|oakestra|kubernetes FILE"
}
