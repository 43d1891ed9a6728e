// Package client is replaced by a generated client while a test compiles it.
package client

import _ "github.com/oapi-codegen/runtime" // what generated clients import
