package obs

import (
	"embed"
	"net/http"
)

// pages are the dashboard's files: a page that reads its own process's /metrics. It asks nothing from elsewhere.
//
//go:embed dashboard
var pages embed.FS

// dashboardPolicy keeps a browser to the files of this process.
const dashboardPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// dashboard adds the page at / and the files that it loads.
func dashboard(mux *http.ServeMux) {
	serve := func(w http.ResponseWriter, r *http.Request, name string) {
		w.Header().Set("Content-Security-Policy", dashboardPolicy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeFileFS(w, r, pages, "dashboard/"+name)
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { serve(w, r, "index.html") })
	mux.HandleFunc("GET /dashboard/{file}", func(w http.ResponseWriter, r *http.Request) {
		serve(w, r, r.PathValue("file"))
	})
}
