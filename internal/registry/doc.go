// Package registry is about logging in to registries of images: the form in which
// credentials are kept in a secret, which is docker's own and that of Kubernetes'
// kubernetes.io/dockerconfigjson, and which of them a pull uses.
//
// Promises:
//
//  1. No error has any part of a value in it.
//  2. Programs that docker would ask for credentials (credHelpers) are never run.
package registry
