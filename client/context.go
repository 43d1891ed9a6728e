package client

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/tlsconf"
	"github.com/verge-edge/verge/internal/wire"
)

// maxContextBytes bounds a context file: some certificates and a key.
const maxContextBytes = 256 << 10

// currentFile in the folder of contexts holds the name of the current one.
const currentFile = "current"

// Context says where a root or cluster is and by what right to use it. It
// is the content of a context file.
type Context struct {
	// Name by which the command line calls it, a DNS label.
	Name string `yaml:"name"`
	// Server is https://host:port.
	Server string `yaml:"server"`
	// CA is the PEM of the authorities to trust; "" trusts the system's.
	CA string `yaml:"ca,omitempty"`
	// Cert and Key are the PEM of a client certificate, both or neither.
	Cert string `yaml:"cert,omitempty"`
	Key  string `yaml:"key,omitempty"`
	// Token is a bearer token, used where there is no certificate.
	Token string `yaml:"token,omitempty"`
	// Namespace that lists are of where none is asked for; "" is all.
	Namespace string `yaml:"namespace,omitempty"`
	// ServerName that the server's certificate must be for; "" is the host of
	// Server.
	ServerName string `yaml:"server_name,omitempty"`
}

// LogValue keeps the key and the token out of logs.
func (e Context) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", e.Name), slog.String("server", e.Server))
}

// String is for people; it has no secrets.
func (e Context) String() string { return e.Name + " (" + e.Server + ")" }

// GoString is String, so that %#v has no secrets either.
func (e Context) GoString() string { return e.String() }

// validate says what is wrong with the entry in words.
func (e Context) validate() error {
	u, err := url.Parse(e.Server)
	switch {
	case e.Server == "":
		return errors.New("server is missing: write https://HOST:PORT")
	case err != nil || u.Scheme != "https" || u.Host == "" || (u.Path != "" && u.Path != "/") || u.User != nil || u.RawQuery != "":
		return fmt.Errorf("server %q is not of the form https://HOST:PORT", e.Server)
	case (e.Cert == "") != (e.Key == ""):
		return errors.New("cert and key belong together: one of them is missing")
	}
	return nil
}

// ReadContext reads a context file.
func ReadContext(path string) (Context, error) {
	const remedy = "list what there is with: verge context list"
	data, err := atomicfile.ReadBounded(path, maxContextBytes)
	if errors.Is(err, os.ErrNotExist) {
		return Context{}, wire.Problemf(0, "no-context", remedy, "there is no such context", "%s does not exist", path)
	}
	if err != nil {
		return Context{}, wire.Problemf(0, "bad-context", remedy, "the context cannot be read", "%v", err)
	}
	var e Context
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&e); err != nil {
		// The error's own text may quote the file, and so a key.
		return Context{}, wire.Problemf(0, "bad-context", "make it again, or choose another: verge context list",
			"the context cannot be read", "%s is not a context file%s", path, position(err))
	}
	if err := e.validate(); err != nil {
		return Context{}, wire.Problemf(0, "bad-context", "make it again, or choose another: verge context list",
			"the context cannot be used", "%s: %v", path, err)
	}
	var p *wire.Problem
	if _, err := e.tlsConfig(); errors.As(err, &p) {
		p.Detail = path + ": " + p.Detail
		return Context{}, p
	}
	return e, nil
}

// tlsConfig is how a client of this context trusts and shows itself.
func (e Context) tlsConfig() (*tls.Config, error) {
	const remedy = "take a new context file from the root, or choose another: verge context list"
	if err := e.validate(); err != nil {
		return nil, wire.Problemf(0, "bad-context", remedy, "the context cannot be used", "%s: %v", e.Name, err)
	}
	conf := tlsconf.Internal()
	conf.ServerName = e.ServerName
	if e.CA != "" {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM([]byte(e.CA)) {
			return nil, wire.Problemf(0, "bad-context", remedy, "the context cannot be used", "%s: ca holds no certificate in PEM", e.Name)
		}
	}
	if e.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(e.Cert), []byte(e.Key))
		if err != nil {
			return nil, wire.Problemf(0, "bad-context", remedy, "the context cannot be used", "%s: cert and key: %v", e.Name, err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

// line finds where an error of the YAML library is.
var line = regexp.MustCompile(`line \d+`)

// position is " (line 3)"; the rest of the error may quote the file, and so a
// key.
func position(err error) string {
	if at := line.FindString(err.Error()); at != "" {
		return " (" + at + ")"
	}
	return ""
}

// Encode is the text of a context file. It contains the key and the token.
func (e Context) Encode() (string, error) {
	if err := e.validate(); err != nil {
		return "", err
	}
	data, err := yaml.Marshal(e)
	if err != nil {
		return "", fmt.Errorf("encode: %w", err)
	}
	return string(data), nil
}

// WriteContext writes a context file with mode 0600, as one step; missing
// folders are made with mode 0700.
func WriteContext(path string, e Context) error {
	text, err := e.Encode()
	if err != nil {
		return fmt.Errorf("write context %s: %w", path, err)
	}
	if err := atomicfile.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write context: %w", err)
	}
	if err := atomicfile.Write(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write context: %w", err)
	}
	return nil
}

// ContextDir is the folder of the user's contexts, verge/contexts under
// $XDG_CONFIG_HOME or ~/.config.
func ContextDir(getenv func(string) string) (string, error) {
	base := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		home := getenv("HOME")
		if home == "" {
			return "", wire.Problemf(0, "no-home", "set HOME, or give a context file with --context", "there is no place for contexts", "neither XDG_CONFIG_HOME nor HOME is set")
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "verge", "contexts"), nil
}

var contextName = regexp.MustCompile(`^[a-zA-Z0-9]([-a-zA-Z0-9_.]{0,61}[a-zA-Z0-9])?$`)

// ContextPath is the file of a named context in dir. A name that could leave
// the folder is an error.
func ContextPath(dir, name string) (string, error) {
	if !contextName.MatchString(name) || strings.Contains(name, "..") {
		return "", wire.Problemf(0, "bad-context-name", "use letters, digits and - . _", "not a name of a context", "%q", name)
	}
	return filepath.Join(dir, name+".yaml"), nil
}

// ContextNames lists the contexts in dir in alphabetical order; none if the
// folder does not exist.
func ContextNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list contexts: %w", err)
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok && contextName.MatchString(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// CurrentContext is the name of the current context in dir, "" if none is set.
func CurrentContext(dir string) (string, error) {
	data, err := atomicfile.ReadBounded(filepath.Join(dir, currentFile), 256)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the current context: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// SetCurrentContext makes a context of dir the current one. It must exist.
func SetCurrentContext(dir, name string) error {
	path, err := ContextPath(dir, name)
	if err != nil {
		return err
	}
	if _, err := ReadContext(path); err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(dir, currentFile), []byte(name+"\n"), 0o600); err != nil {
		return fmt.Errorf("set the current context: %w", err)
	}
	return nil
}
