package casetest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Received is one call as a worker saw it.
type Received struct {
	Worker    string
	Path      string
	Header    map[string][]string
	Body      string
	Start     time.Time
	Cancelled time.Time // when the caller closed an unfinished call
	Done      bool
	Served    Answer
	Sent      string // what the answer's body was before any coding
}

// Fleet is a case's scripted workers. Answers are used in the order in which calls arrive over the whole fleet.
type Fleet struct {
	Workers []*Worker

	mu          sync.Mutex
	answers     []Answer
	calls       []*Received
	connections int
	occupied    int
	idleClose   time.Duration
	wg          sync.WaitGroup
}

// Worker is one scripted vLLM.
type Worker struct {
	Name   string
	State  string
	Models []string
	Loras  map[string]string
	URL    string

	fleet   *Fleet
	answers []Answer
	used    int
	ln      net.Listener
	conns   sync.Map
}

// startFleet opens the workers of a plan.
func startFleet(plan WorkerPlan) (*Fleet, error) {
	f := &Fleet{answers: plan.Answers, idleClose: time.Duration(plan.IdleCloseMS) * time.Millisecond}
	members := plan.Fleet
	if len(members) == 0 {
		members = []Member{{Name: "w0"}}
	}
	for _, m := range members {
		w := &Worker{Name: m.Name, State: m.State, Models: m.Models, Loras: m.Loras, answers: m.Answers, fleet: f}
		if w.Models == nil {
			w.Models = plan.Models
		}
		if w.Models == nil {
			w.Models = []string{defaultModel}
		}
		if w.Loras == nil {
			w.Loras = plan.Loras
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		w.ln, w.URL = ln, "http://"+ln.Addr().String()
		f.Workers = append(f.Workers, w)
		if w.State == "gone" {
			_ = ln.Close()
			continue
		}
		f.wg.Go(w.accept)
	}
	return f, nil
}

// refuse closes the ports of the workers that the mesh is to know and not to reach.
func (f *Fleet) refuse() {
	for _, w := range f.Workers {
		if w.State == "refusing" {
			w.close()
		}
	}
}

// close ends a worker's listener and its connections.
func (w *Worker) close() {
	_ = w.ln.Close()
	w.conns.Range(func(c, _ any) bool {
		if nc, ok := c.(net.Conn); ok {
			_ = nc.Close()
		}
		return true
	})
}

// stop closes everything and waits.
func (f *Fleet) stop() {
	for _, w := range f.Workers {
		w.close()
	}
	f.wg.Wait()
}

func (w *Worker) accept() {
	for {
		nc, err := w.ln.Accept()
		if err != nil {
			return
		}
		w.conns.Store(nc, true)
		w.fleet.wg.Go(func() {
			defer w.conns.Delete(nc)
			defer nc.Close()
			w.serve(nc)
		})
	}
}

// serve answers the requests of one connection.
func (w *Worker) serve(nc net.Conn) {
	br := bufio.NewReader(nc)
	called := false
	for {
		if d := w.fleet.idleClose; d > 0 {
			_ = nc.SetReadDeadline(time.Now().Add(d))
		}
		if _, err := br.Peek(1); err != nil {
			return
		}
		_ = nc.SetReadDeadline(time.Time{})
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if w.State == "silent" {
			_, _ = br.Peek(1)
			return
		}
		if w.own(nc, r) {
			continue
		}
		if !called {
			called = true
			w.fleet.mu.Lock()
			w.fleet.connections++
			w.fleet.mu.Unlock()
		}
		if !w.call(nc, br, r, body) {
			return
		}
	}
}

// own answers what is no call: the paths that adapters read.
func (w *Worker) own(nc net.Conn, r *http.Request) bool {
	if r.Method != http.MethodGet || strings.HasPrefix(r.URL.Path, "/v1/responses") {
		return false
	}
	status, body := 404, `{"detail":"Not Found"}`
	switch r.URL.Path {
	case "/health", "/ping", "/metrics":
		status, body = 200, ""
	case "/version":
		status, body = 200, `{"version":"0.32.0"}`
	case "/v1/models":
		status, body = 200, `{"object":"list","data":[`+strings.Join(w.entries(), ",")+`]}`
	}
	_, _ = fmt.Fprintf(nc, "HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s",
		status, http.StatusText(status), len(body), body)
	return true
}

// entries is the worker's model list.
func (w *Worker) entries() []string {
	var out []string
	for _, m := range w.Models {
		out = append(out, entry(m, "", 8192))
	}
	for name, base := range w.Loras {
		out = append(out, entry(name, base, 0))
	}
	return out
}

func entry(id, parent string, maxLen int) string {
	q := func(s string) string {
		if s == "" {
			return "null"
		}
		return quote(s)
	}
	length := "null"
	if maxLen > 0 {
		length = fmt.Sprint(maxLen)
	}
	return `{"id":` + q(id) + `,"object":"model","created":1764500000,"owned_by":"vllm","root":` + q(id) + `,"parent":` + q(parent) +
		`,"max_model_len":` + length + `,"permission":[]}`
}

// next is the answer for the next call of the fleet, or of this worker where it has its own.
func (w *Worker) next(rec *Received) Answer {
	f := w.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	if strings.Contains(rec.Body, occupyMark) {
		f.occupied++
		return Answer{Kind: "fault", Fault: "hang"}
	}
	f.calls = append(f.calls, rec)
	list, n := f.answers, len(f.calls)-1
	if len(w.answers) > 0 {
		list, n = w.answers, w.used
		w.used++
	} else {
		for _, c := range f.calls[:len(f.calls)-1] {
			if f.worker(c.Worker).answers != nil {
				n--
			}
		}
	}
	if len(list) == 0 {
		return Answer{Kind: "fault", Fault: "close"}
	}
	return list[min(n, len(list)-1)]
}

func (f *Fleet) worker(name string) *Worker {
	i := slices.IndexFunc(f.Workers, func(w *Worker) bool { return w.Name == name })
	return f.Workers[i]
}

// occupyMark is the prompt of requests that only take places.
const occupyMark = "kvmesh-casetest-occupy"

// call answers one call and tells whether the connection stays.
func (w *Worker) call(nc net.Conn, br *bufio.Reader, r *http.Request, body []byte) bool {
	rec := &Received{Worker: w.Name, Path: r.URL.Path, Header: map[string][]string{}, Body: string(body), Start: time.Now()}
	for k, v := range r.Header {
		rec.Header[strings.ToLower(k)] = v
	}
	a := w.next(rec)
	var gone atomic.Bool
	quit, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		if _, err := br.Peek(1); err != nil {
			gone.Store(true)
			w.fleet.mu.Lock()
			if !rec.Done {
				rec.Cancelled = time.Now()
			}
			w.fleet.mu.Unlock()
			close(quit)
		}
	}()
	s := &script{conn: nc, quit: quit, answer: a, rec: rec, number: w.fleet.number(rec), request: body}
	keep := s.play()
	w.fleet.mu.Lock()
	rec.Done, rec.Served, rec.Sent = rec.Cancelled.IsZero(), a, s.sent.String()
	w.fleet.mu.Unlock()
	if !keep {
		_ = nc.Close()
	}
	_ = nc.SetReadDeadline(time.Now())
	<-watched
	_ = nc.SetReadDeadline(time.Time{})
	return keep && (!gone.Load() || !isClosed(br))
}

// isClosed tells whether the peer has closed; the watcher's own deadline is no close.
func isClosed(br *bufio.Reader) bool {
	_, err := br.Peek(0)
	return err != nil
}

// number is the call's number over the fleet, from 1.
func (f *Fleet) number(rec *Received) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Index(f.calls, rec) + 1
}

// Calls is a copy of what was received.
func (f *Fleet) Calls() []Received {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Received, 0, len(f.calls))
	for _, c := range f.calls {
		out = append(out, *c)
	}
	return out
}

// Connections is how many connections were opened for calls; those of adapters that only ask for a state do not count.
func (f *Fleet) Connections() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.connections
}

// Occupied is how many place holders have arrived.
func (f *Fleet) Occupied() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.occupied
}
