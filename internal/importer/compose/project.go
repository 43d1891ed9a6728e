package compose

import (
	"context"
	"errors"
	"fmt"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// loadProject runs compose-go's loader on the parsed file, without access to others.
func loadProject(file string, plain map[string]any, profiles []string) (p *types.Project, err error) {
	// Some errors in a file make the loader panic in a type assertion.
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, errors.New("it is not what the compose specification says")
		}
	}()
	details := types.ConfigDetails{WorkingDir: "/", ConfigFiles: []types.ConfigFile{{Filename: file, Config: plain}},
		Environment: types.Mapping{}}
	p, err = loader.LoadWithContext(context.Background(), details, func(o *loader.Options) {
		o.SetProjectName("project", true)
		o.SkipInclude = true
		o.SkipNormalization = true
		o.SkipResolveEnvironment = true
		o.SkipResolveLabels = true
		o.ResolvePaths = false
		o.Profiles = profiles
	})
	if err != nil {
		return nil, fmt.Errorf("compose: %w", err)
	}
	return p, nil
}
