package descriptor

import (
	"fmt"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/internal/words"
	"github.com/verge-edge/verge/api/pattern"
)

var (
	imageRE  = pattern.Lazy(pattern.Image)
	moduleRE = pattern.Lazy(pattern.Module)
)

// maxImage bounds the name of an image or a module, in bytes.
const maxImage = 512

// runtime checks that a process has a program, a container an image, and a function a
// module.
func (v *validator) runtime(path string, s *api.Service) {
	in := func(field string) string { return path + "." + field }
	if s.Module != "" && s.Runtime != api.Wasm {
		v.complain(in("module"), "only a function has a module", "write runtime: wasm, or remove it")
	}
	if s.Runtime != api.Container {
		if s.Runtime == api.Wasm {
			v.function(path, s)
		} else {
			v.program(in("command"), s.Command, "a process has a program")
		}
		for _, f := range []struct{ field, value, what string }{
			{"image", s.Image, "an image"}, {"pull", s.Pull, "an image"},
		} {
			if f.value != "" {
				v.complain(in(f.field), "only a container has "+f.what, "write runtime: container, or remove it")
			}
		}
		if s.Runtime == api.Wasm && s.User != "" {
			v.complain(in("user"), "a function has no user: it runs in the worker's engine", "leave it out")
		} else {
			v.user(in("user"), s.User)
		}
		return
	}
	switch {
	case v.spoiled(in("image")):
	case s.Image == "":
		v.complain(in("image"), "is missing: a container is made of an image", "write image: docker.io/library/redis:7")
	case len(s.Image) <= maxImage && strings.Contains(s.Image, "@") && !imageRE().MatchString(s.Image) &&
		imageRE().MatchString(beforeDigest(s.Image)):
		// A worker would find out at each start, long after this was applied.
		v.complain(in("image"),
			words.Quote(s.Image[len(beforeDigest(s.Image))+1:])+
				" is no digest: that is sha256: and 64 hexadecimal digits, in small letters",
			"copy it from what docker pull or the registry prints, or leave out the @ and what is after it")
	case len(s.Image) > maxImage || !imageRE().MatchString(s.Image):
		v.complain(in("image"), words.Quote(s.Image)+" is not the name of an image",
			"write it as docker pull takes it: docker.io/library/redis:7")
	}
	v.user(in("user"), s.User)
	if len(s.Command) > 0 {
		v.program(in("command"), s.Command, "")
	}
}

func (v *validator) user(at, user string) {
	if user != "" && !api.IsUser(user) && !v.spoiled(at) {
		v.complain(at, words.Quote(user)+" is not a user", "write a name or a number, with :group or without: 1000:1000")
	}
}

// beforeDigest is the name of an image without its digest.
func beforeDigest(image string) string {
	name, _, _ := strings.Cut(image, "@")
	return name
}

// function checks that a service is what a module can be.
func (v *validator) function(path string, s *api.Service) {
	in := func(field string) string { return path + "." + field }
	switch {
	case v.spoiled(in("module")):
	case s.Module == "":
		v.complain(in("module"), "is missing: a function is made of a module",
			"write module: functions/hello.wasm, as verge fn deploy does")
	case len(s.Module) > maxImage || !moduleRE().MatchString(s.Module):
		v.complain(in("module"), words.Quote(s.Module)+" is neither the name of an object nor an absolute path",
			"write functions/hello.wasm, or /srv/hello.wasm for a file of the worker")
	}
	if len(s.Command) > 0 {
		v.complain(in("command"), "a function has a module and no command",
			"write args for its arguments, or runtime: process")
	}
	const none = "a function has none: it runs in the worker's engine"
	if len(s.Volumes) > 0 {
		v.complain(in("volumes"), none, "write files, or use objects")
	}
	if s.Bandwidth != (api.Bandwidth{}) {
		v.complain(in("bandwidth"), none, "leave it out")
	}
	for _, d := range []struct {
		field string
		given bool
	}{{"resources.vgpus", s.Resources.VGPUs > 0}, {"resources.vtpus", s.Resources.VTPUs > 0},
		{"devices", len(s.Devices) > 0}} {
		if d.given {
			v.complain(in(d.field), none, "leave it out, or use runtime container or process")
		}
	}
	for _, c := range []struct {
		field string
		check *api.Check
	}{{"startup", s.Startup}, {"readiness", s.Readiness}, {"liveness", s.Liveness}} {
		if c.check != nil && c.check.Exec != nil {
			v.complain(in(c.field)+".exec", "a function has no commands",
				"use http, or leave it out: a function is ready when it has started")
		}
	}
	switch {
	case len(s.Ports) > 1:
		v.complain(in("ports"), fmt.Sprintf("has %d ports, a function has one", len(s.Ports)),
			"leave one, whose protocol is http")
	case len(s.Ports) == 1 && s.Ports[0].Number != 0:
		v.complain(in("ports")+"[0].number", "a function does not listen itself", "leave it out")
	case len(s.Ports) == 1 && s.Ports[0].Protocol != "http":
		v.complain(in("ports")+"[0].protocol", "a function answers http requests", "write protocol: http, or leave it out")
	}
}
