// Package openapi holds the OpenAPI document of the REST operations, generated from the protos by protoc-gen-openapiv2.
package openapi

import _ "embed"

//go:embed openapi.json
var document []byte

// Document is the JSON document. Callers must not change it.
func Document() []byte { return document }
