package cli

import (
	"bytes"
	"errors"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/internal/registry"
)

// registryLogin are the flags of a secret for pulling images.
type registryLogin struct{ host, user, file string }

func (l *registryLogin) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.host, "registry", "", "the registry, as registry.example.org:5000 or docker.io")
	cmd.Flags().StringVar(&l.user, "username", "", "user name at --registry")
	cmd.Flags().StringVar(&l.file, "password-file", "",
		"file with the password or token of --username, - for standard input")
}

func (l *registryLogin) given() bool { return l.host != "" || l.user != "" || l.file != "" }

// check says what is missing, or too much.
func (l *registryLogin) check(other bool) error {
	switch {
	case !l.given():
		return nil
	case l.host == "" || l.user == "" || l.file == "":
		return errors.New("give --registry, --username and --password-file together")
	case other:
		return errors.New("give --registry without --from-file, --cert and --key")
	}
	return nil
}

// value is that of the secret. The line break at the end of a password is not a part of
// it.
func (l *registryLogin) value(a *app) ([]byte, error) {
	password, err := a.secretValue(l.file)
	if err != nil {
		return nil, err
	}
	return registry.New(l.host, l.user, string(bytes.TrimRight(password, "\r\n")))
}
