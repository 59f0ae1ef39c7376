// Package openapi makes the OpenAPI document of the REST surface: what the generated document of the gRPC services
// cannot say, since there every answer is a stream of bytes. operations.yaml names paths and shapes, schemas.yaml has
// the shapes; what all operations share is added here.
package openapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed operations.yaml
var operationsYAML []byte

//go:embed schemas.yaml
var schemasYAML []byte

// object is a JSON object.
type object = map[string]any

// operation is one line of operations.yaml.
type operation struct {
	Path    string `yaml:"path"`
	Get     string `yaml:"get"`
	Post    string `yaml:"post"`
	Tag     string `yaml:"tag"`
	Summary string `yaml:"summary"`
	Body    string `yaml:"body"`   // shape of a JSON body
	Form    string `yaml:"form"`   // shape of a multipart form
	Answer  string `yaml:"answer"` // shape of the plain answer
	Stream  string `yaml:"stream"` // shape of an event's data, where the operation can stream
	Text    bool   `yaml:"text"`   // the plain answer may also be text
	Open    bool   `yaml:"open"`   // no key is asked for

	Query map[string]string `yaml:"query"` // types of what may stand behind the path's "?"
}

// Document is the JSON document of this version of kvmesh.
func Document(version string) ([]byte, error) {
	var operations []operation
	if err := yaml.Unmarshal(operationsYAML, &operations); err != nil {
		return nil, fmt.Errorf("read operations of the OpenAPI document: %w", err)
	}
	var schemas object
	if err := yaml.Unmarshal(schemasYAML, &schemas); err != nil {
		return nil, fmt.Errorf("read shapes of the OpenAPI document: %w", err)
	}
	paths := map[string]object{}
	for i := range operations {
		o := &operations[i]
		if paths[o.Path] == nil {
			paths[o.Path] = object{}
		}
		method := "get"
		if o.Post != "" {
			method = "post"
		}
		paths[o.Path][method] = o.object()
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "kvmesh", "version": version,
			"description": "One OpenAI-compatible address in front of plain vLLM workers. Members that are not described here " +
				"pass through unchanged. Each path also answers below /predictions/{model}/{version}.",
		},
		"paths":    paths,
		"security": []any{object{}, object{"key": []any{}}},
		"components": object{
			"schemas":         schemas,
			"securitySchemes": object{"key": object{"type": "http", "scheme": "bearer"}},
			"headers": object{
				"RequestID": object{"description": "The request's id: the client's own, or a new one", "schema": object{"type": "string"}},
			},
		},
	})
}

func ref(kind, name string) object { return object{"$ref": "#/components/" + kind + "/" + name} }

// content is one media type's shape.
func content(media, schema string) object {
	return object{media: object{"schema": ref("schemas", schema)}}
}

// object is the operation in OpenAPI's words.
func (o *operation) object() object {
	out := object{
		"operationId": o.Get + o.Post, "tags": []any{o.Tag}, "summary": o.Summary, "parameters": o.parameters(),
		"responses": o.responses(),
	}
	switch {
	case o.Body != "":
		out["requestBody"] = object{"required": true, "content": content("application/json", o.Body)}
	case o.Form != "":
		out["requestBody"] = object{"required": true, "content": content("multipart/form-data", o.Form)}
	}
	if o.Open {
		out["security"] = []any{}
	}
	return out
}

// parameters are the path's, and the headers that every operation reads.
func (o *operation) parameters() []any {
	out := []any{}
	for part := range strings.SplitSeq(o.Path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			out = append(out, object{
				"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true,
				"schema": object{"type": "string", "minLength": 1},
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Query)) {
		out = append(out, object{"name": name, "in": "query", "schema": object{"type": o.Query[name]}})
	}
	if o.Open {
		return out
	}
	return append(out,
		object{
			"name": "X-Request-Id", "in": "header", "description": "Used for logs, receipts and the worker",
			"schema": object{"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$"},
		},
		object{
			"name": "X-Request-Timeout", "in": "header", "description": "Seconds until the request ends with 504",
			"schema": object{"type": "number", "minimum": 1, "maximum": 600},
		})
}

// errorMeanings are the statuses that kvmesh answers itself or passes on from a worker, and what they mean.
func errorMeanings() map[int]string {
	return map[int]string{
		400: "The request is not one; `param` names the member",
		401: "No key, or an unknown one",
		403: "The key may not use this model",
		404: "No such model, response, receipt or path",
		405: "The path does not take this method; see Allow",
		408: "The body did not come in time",
		413: "The body is larger than the limit",
		415: "The content type is not the one that the path takes",
		422: "The worker does not accept the request",
		429: "The key's rate, the queue, or every worker is full; see Retry-After",
		500: "A fault of the worker or of kvmesh",
		501: "The worker does not have this function",
		502: "The worker's answer broke off or was none",
		503: "No worker can take the request now; see Retry-After",
		504: "The request's deadline passed",
	}
}

// responses are the answer and all errors.
func (o *operation) responses() object {
	good := content("application/json", o.Answer)
	if o.Stream != "" {
		good["text/event-stream"] = object{
			"schema":         object{"type": "string", "description": "Events; the data of each is an `x-event-data`, or [DONE]"},
			"x-event-data":   ref("schemas", o.Stream),
			"x-event-errors": ref("schemas", o.errorShape()),
		}
	}
	if o.Text {
		good["text/plain"] = object{"schema": object{"type": "string"}}
	}
	headers := object{"X-Request-Id": ref("headers", "RequestID")}
	out := object{"200": object{"description": "The answer", "content": good, "headers": headers}}
	for status, meaning := range errorMeanings() {
		out[strconv.Itoa(status)] = object{
			"description": meaning, "content": content("application/json", o.errorShape()), "headers": headers,
		}
	}
	return out
}

// errorShape is the API's own error object.
func (o *operation) errorShape() string {
	if o.Tag == "Anthropic" {
		return "MessagesErrorBody"
	}
	return "ErrorBody"
}
