package credentials

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/jwt/v2"
)

// The subjects of the scheduler plugin with a name: all that its users may hear.
const pluginDown = "plugin."

const (
	// pluginMaxSubs: its subjects, in a group or not.
	pluginMaxSubs = 4
	// pluginWindow is how long it may answer a question: no convergence time of a
	// service is longer.
	pluginWindow = time.Hour
	// pluginUser begins the name of a user that is a plugin, which no node can have.
	pluginUser = "plugin/"
)

// PluginUser is the user that the processes of a plugin are.
func PluginUser(name string) string { return pluginUser + name }

// PluginSubject is where a plugin is asked.
func PluginSubject(name string) string { return pluginDown + name + ".ask" }

// PluginSubjects are what a plugin subscribes to.
func PluginSubjects(name string) string { return pluginDown + name + ".*" }

// pluginClaims is a user in the account LOCAL that is asked as the plugin name. It may
// publish nothing but one answer to each question.
func pluginClaims(name, userKey string) *jwt.UserClaims {
	c := jwt.NewUserClaims(userKey)
	c.Name = PluginUser(name)
	c.AllowedConnectionTypes.Add(jwt.ConnectionTypeStandard)
	c.Sub.Allow.Add(PluginSubjects(name))
	c.Pub.Deny.Add(">")
	c.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: pluginWindow}
	c.Limits.Payload = nodeMaxPayload
	c.Limits.Subs = pluginMaxSubs
	return c
}

// Credentials are the token and the private key in the form that NATS clients of all
// languages read from a file. It is a secret.
func (k Key) Credentials(userJWT string) ([]byte, error) {
	if k.pair == nil {
		return nil, errors.New("no bus key")
	}
	seed, err := k.pair.Seed()
	if err != nil {
		return nil, errors.New("the bus key has no private half")
	}
	out, err := jwt.FormatUserConfig(userJWT, seed)
	if err != nil {
		return nil, fmt.Errorf("bus token is not readable: %w", err)
	}
	return out, nil
}
