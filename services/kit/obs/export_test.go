package obs

import "net/http"

// HandlerOf is the admin server's handler, so that a test can be any peer.
func HandlerOf(a *Admin) http.Handler { return a.srv.Handler }
