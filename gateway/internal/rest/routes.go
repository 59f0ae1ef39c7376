package rest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	gatewayv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/gateway/v1"
)

// route is one path pattern of the protos.
type route struct {
	segments []string // "*" matches one segment, a last "**" the rest
	method   string
	form     bool // the body is a multipart form
	body     bool
}

// routes reads the path patterns out of the services' descriptors: what is allowed on a path has one source.
func routes() []route {
	var out []route
	files := []protoreflect.FileDescriptor{
		gatewayv1.File_kvmesh_gateway_v1_openai_proto, gatewayv1.File_kvmesh_gateway_v1_mesh_proto,
	}
	for _, f := range files {
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for j := range methods.Len() {
				out = append(out, rulesOf(methods.Get(j))...)
			}
		}
	}
	return out
}

func rulesOf(m protoreflect.MethodDescriptor) []route {
	rule, ok := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	if !ok || rule == nil {
		return nil
	}
	var out []route
	for _, r := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
		n := route{method: http.MethodGet, body: r.GetBody() != "", form: m.Input().Name() == "FormRequest"}
		path := r.GetGet()
		if p := r.GetPost(); p != "" {
			n.method, path = http.MethodPost, p
		}
		path = strings.Replace(strings.TrimPrefix(path, "/"), "{model=*/**}", "**", 1)
		for s := range strings.SplitSeq(path, "/") {
			if strings.HasPrefix(s, "{") {
				s = "*"
			}
			n.segments = append(n.segments, s)
		}
		out = append(out, n)
	}
	return out
}

// matches tells whether a path fits the pattern.
func (r *route) matches(path string) bool {
	rest := strings.TrimPrefix(path, "/")
	for i, want := range r.segments {
		if want == "**" {
			return rest != ""
		}
		got, after, more := strings.Cut(rest, "/")
		if got == "" || want != "*" && want != got || more != (i < len(r.segments)-1) {
			return false
		}
		rest = after
	}
	return true
}

// find is the route of a request, and the methods that its path allows.
func (e *Edge) find(method, path string) (found *route, allowed []string) {
	for i := range e.routes {
		r := &e.routes[i]
		if !r.matches(path) {
			continue
		}
		if r.method == method {
			return r, nil
		}
		if !slices.Contains(allowed, r.method) {
			allowed = append(allowed, r.method)
		}
	}
	return nil, allowed
}

// oldPath turns TorchServe's /predictions/{model}/{version}/v1/… into /v1/… and the model, whose own slashes are escaped.
func oldPath(u *url.URL) (newPath, model string) {
	if !strings.HasPrefix(u.Path, "/predictions/") {
		return u.Path, ""
	}
	rest := strings.TrimSuffix(strings.TrimPrefix(u.EscapedPath(), "/predictions/"), "/")
	escaped, rest, _ := strings.Cut(rest, "/")
	version, tail, ok := strings.Cut(rest, "/")
	if version == "v1" && !strings.HasPrefix(tail, "v1/") {
		tail = rest
	}
	model, err := url.PathUnescape(escaped)
	path, perr := url.PathUnescape(tail)
	if !ok || version == "" || model == "" || err != nil || perr != nil {
		return u.Path, ""
	}
	return "/" + path, model
}
