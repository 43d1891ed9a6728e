package compose

import (
	"context"
	"errors"
	"fmt"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// loadProject is compose-go's loader on what has been read, without any file but that.
func loadProject(file string, plain map[string]any, profiles []string) (p *types.Project, err error) {
	// Some of what is wrong in a file it finds out by a type assertion.
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
