package manifest

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/verge-edge/verge/internal/k8s"
)

// IngressSpec is the spec of an Ingress, of networking.k8s.io/v1 and older versions.
type IngressSpec struct {
	IngressClassName *string         `json:"ingressClassName"`
	DefaultBackend   *ingressBackend `json:"defaultBackend"`
	Backend          *ingressBackend `json:"backend"`
	TLS              []struct {
		Hosts      []string `json:"hosts"`
		SecretName string   `json:"secretName"`
	} `json:"tls"`
	Rules []struct {
		Host string `json:"host"`
		HTTP *struct {
			Paths []IngressPath `json:"paths"`
		} `json:"http"`
	} `json:"rules"`
}

// IngressPath is a path of a host, and its target.
type IngressPath struct {
	Path     string         `json:"path"`
	PathType k8s.PathType   `json:"pathType"`
	Backend  ingressBackend `json:"backend"`
}

type ingressBackend struct {
	Service *struct {
		Name string `json:"name"`
		Port struct {
			Name   string `json:"name"`
			Number int32  `json:"number"`
		} `json:"port"`
	} `json:"service"`
	Resource    IgnoredField       `json:"resource"`
	ServiceName string             `json:"serviceName"`
	ServicePort intstr.IntOrString `json:"servicePort"`
}

// Target is the name of the Service and its port.
func (b *ingressBackend) Target() (string, intstr.IntOrString) {
	if b.Service == nil {
		return b.ServiceName, b.ServicePort
	}
	if b.Service.Port.Name != "" {
		return b.Service.Name, intstr.FromString(b.Service.Port.Name)
	}
	return b.Service.Name, intstr.FromInt32(b.Service.Port.Number)
}
