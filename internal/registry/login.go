package registry

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Login is what a registry wants to know of who pulls.
type Login struct {
	// User is empty where Secret is a token of the registry.
	User, Secret string
}

// Logins are those of a secret, by the host of the registry with its port, and
// perhaps a path below which they hold.
type Logins map[string]Login

// dockerConfig is the form in which credentials for registries are passed around:
// docker's own file, and Kubernetes' kubernetes.io/dockerconfigjson.
type dockerConfig struct {
	Auths map[string]dockerAuth `json:"auths"`
}

type dockerAuth struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	Auth          string `json:"auth,omitempty"` // base64 of username:password
	IdentityToken string `json:"identitytoken,omitempty"`
}

// New is the value of a secret with one login.
func New(host, user, password string) ([]byte, error) {
	if hostOf(host) == "" {
		return nil, errors.New("the registry has no host")
	}
	return json.Marshal(dockerConfig{Auths: map[string]dockerAuth{hostOf(host): {Username: user, Password: password}}})
}

// Parse reads the value of a secret. No error has any of it.
func Parse(value []byte) (Logins, error) {
	var c dockerConfig
	if json.Unmarshal(value, &c) != nil || len(c.Auths) == 0 {
		return nil, errors.New(`it is not of the form {"auths": {"HOST": {"username": …, "password": …}}}; make it with verge secret set NAME --registry HOST --username USER --password-file FILE`)
	}
	out := Logins{}
	for host, a := range c.Auths {
		l := Login{User: a.Username, Secret: a.Password}
		if a.Auth != "" {
			plain, err := base64.StdEncoding.DecodeString(a.Auth)
			user, password, ok := strings.Cut(string(plain), ":")
			if err != nil || !ok {
				return nil, fmt.Errorf("the auth of %.100q in it is not the base64 of USER:PASSWORD", host)
			}
			l = Login{User: user, Secret: strings.TrimRight(password, "\x00")}
		}
		if a.IdentityToken != "" {
			l = Login{Secret: a.IdentityToken}
		}
		out[hostOf(host)] = l
	}
	return out, nil
}

// hostOf is the name of a registry without what people write around it.
func hostOf(s string) string {
	s = strings.TrimPrefix(strings.TrimPrefix(s, "https://"), "http://")
	s = strings.TrimRight(s, "/")
	for _, api := range []string{"/v1", "/v2"} {
		s = strings.TrimSuffix(s, api)
	}
	switch s { // they are one
	case "index.docker.io", "registry-1.docker.io":
		return "docker.io"
	}
	return s
}

// For is the login for an image, by its full name, at a host that is asked for it: of
// the registry itself, or of a mirror.
func (l Logins) For(image, host string) (Login, bool) {
	host = hostOf(host)
	if path, ok := strings.CutPrefix(image, host+"/"); ok {
		for at := strings.LastIndexByte(path, '/'); at > 0; at = strings.LastIndexByte(path, '/') {
			path = path[:at]
			if login, ok := l[host+"/"+path]; ok {
				return login, true
			}
		}
	}
	login, ok := l[host]
	return login, ok
}
