package main

import (
	"debug/buildinfo"
	"errors"
	"os"
	"strings"
	"time"

	// The schema of CycloneDX, one of the two forms that scanners of such lists read.
	cdx "github.com/CycloneDX/cyclonedx-go"
)

// parts writes the list of the modules that a program of an architecture was made of (SBOM,
// CycloneDX), as the program itself says.
func (b build) parts(program, arch string) (string, error) {
	info, err := buildinfo.ReadFile(b.binary(program, arch))
	if err != nil {
		return "", err
	}
	main := cdx.Component{
		BOMRef: program, Type: cdx.ComponentTypeApplication, Name: program,
		Version: b.version, PackageURL: purl(info.Main.Path, b.version),
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	components := []cdx.Component{{
		BOMRef: "go", Type: cdx.ComponentTypePlatform, Name: "go", Version: strings.TrimPrefix(info.GoVersion, "go"),
		PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"),
	}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := cdx.Component{
			BOMRef: m.Path, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version,
			PackageURL: purl(m.Path, m.Version),
		}
		if m.Sum != "" { // not of the file that was fetched, so not a hash in the list's sense
			c.Properties = &[]cdx.Property{{Name: "go.sum", Value: m.Sum}}
		}
		components = append(components, c)
	}
	list := cdx.NewBOM()
	list.Metadata = &cdx.Metadata{
		Timestamp: b.at.Format(time.RFC3339), Component: &main,
		Properties: &[]cdx.Property{{Name: "GOARCH", Value: arch}},
	}
	list.Components = &components
	path := b.file(program, "_linux_"+arch+".cdx.json")
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	return path, errors.Join(cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(list), f.Close())
}

// purl names a Go module in the way of package URLs.
func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}
