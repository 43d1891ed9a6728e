package api

import "regexp"

var (
	imageRE = regexp.MustCompile(imagePattern)
	userRE  = regexp.MustCompile(userPattern)
)

// maxImage bounds the name of an image, in bytes.
const maxImage = 512

// runtime checks that a process has a program, and a container an image.
func (v *validator) runtime(path string, s *Service) {
	in := func(field string) string { return path + "." + field }
	if s.Runtime != Container {
		v.program(in("command"), s.Command, "a process has a program")
		for _, f := range []struct{ field, value, what string }{
			{"image", s.Image, "an image"}, {"pull", s.Pull, "an image"}, {"user", s.User, "a user"},
		} {
			if f.value != "" {
				v.complain(in(f.field), "only a container has "+f.what, "write runtime: container, or remove it")
			}
		}
		return
	}
	switch {
	case v.spoiled(in("image")):
	case s.Image == "":
		v.complain(in("image"), "is missing: a container is made of an image", "write image: docker.io/library/redis:7")
	case len(s.Image) > maxImage || !imageRE.MatchString(s.Image):
		v.complain(in("image"), quote(s.Image)+" is not the name of an image", "write it as docker pull takes it: docker.io/library/redis:7")
	}
	if s.User != "" && !userRE.MatchString(s.User) && !v.spoiled(in("user")) {
		v.complain(in("user"), quote(s.User)+" is not a user", "write a name or a number, with :group or without: 1000:1000")
	}
	if len(s.Command) > 0 {
		v.program(in("command"), s.Command, "")
	}
}
