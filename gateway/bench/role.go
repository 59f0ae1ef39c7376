package bench

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"time"

	"google.golang.org/grpc"

	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"

	"github.com/kvmesh/kvmesh/services/kit/obs"

	"github.com/kvmesh/kvmesh/gateway"
)

// roleVariable makes the test binary run as one of the processes.
const roleVariable = "KVMESH_BENCH_ROLE"

// upstreamVariable is the worker's address for gateway and proxy.
const upstreamVariable = "KVMESH_BENCH_UPSTREAM"

// profileVariable is where CPU profiles go, one file per role, if anywhere.
const profileVariable = "KVMESH_BENCH_PROFILE"

// oracleVariable is where the mock worker finds a template and a tokenizer service, two addresses; without it no cache
// events are sent.
const oracleVariable = "KVMESH_BENCH_ORACLE"

// What a line on a role's input asks for; it is confirmed by a line.
const (
	askCollect = "gc"     // collect garbage
	askTell    = "tell"   // the worker: publish the events of the prompts since the last tell or forget
	askForget  = "forget" // the worker: publish nothing of them
)

// Serve runs the process's role, if it has one, and then ends the process.
func Serve() {
	role := os.Getenv(roleVariable)
	if role == "" {
		return
	}
	rec, err := newRecorder(os.Getenv(oracleVariable))
	addr := ""
	if err == nil {
		addr, err = serveRole(role, os.Getenv(upstreamVariable), rec)
	}
	stop := func() {}
	if dir := os.Getenv(profileVariable); dir != "" && err == nil && role != "worker" {
		stop, err = profile(dir + "/" + role + ".prof")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(addr)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); fmt.Println("ok") {
		if err := obey(in.Text(), rec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	stop()
	os.Exit(0)
}

// obey does what a line asks for.
func obey(line string, rec *recorder) error {
	switch line {
	case askTell:
		return rec.tell(context.Background())
	case askForget:
		rec.take()
	default:
		runtime.GC()
		debug.FreeOSMemory()
	}
	return nil
}

// serveRole returns the address that the role serves at; the worker's is followed by that of its events.
func serveRole(role, upstream string, rec *recorder) (string, error) {
	switch role {
	case "worker":
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		events, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		go serveWorker(ln, rec)
		go rec.serve(events)
		return ln.Addr().String() + " " + events.Addr().String(), nil
	case "proxy":
		return serveProxy(upstream)
	case "gateway":
		return serveGateway(upstream)
	}
	return "", fmt.Errorf("no role %q", role)
}

// profile writes a CPU profile until stop is called.
func profile(path string) (stop func(), err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close()
	}, pprof.StartCPUProfile(f)
}

// serveProxy is the yardstick: Go's own reverse proxy, flushing every write.
func serveProxy(upstream string) (string, error) {
	var memory obs.MemoryConfig // as our arms, or the comparison would be one of settings
	memory.SetDefaults()
	memory.Apply(os.Environ())
	u, err := url.Parse("http://" + upstream)
	if err != nil {
		return "", err
	}
	p := httputil.NewSingleHostReverseProxy(u)
	p.FlushInterval = -1
	p.Transport = &http.Transport{MaxIdleConnsPerHost: 4096, IdleConnTimeout: time.Minute, DisableCompression: true}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() { _ = http.Serve(ln, p) }()
	return ln.Addr().String(), nil
}

// serveGateway is the gateway with stand-ins that answer at once, so that its own cost is seen. Request lines are written
// and garbage is collected as in production.
func serveGateway(upstream string) (string, error) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	var memory obs.MemoryConfig // as the binary does
	memory.SetDefaults()
	memory.Apply(os.Environ())
	g, err := gateway.New(context.Background(), gateway.Config{Address: "127.0.0.1:0"}, gateway.Deps{
		Log:       obs.NewLogger(obs.LogConfig{Level: "info", Format: "text"}, obs.NewLogWriter(null, 100*time.Millisecond), "gateway"),
		Scheduler: instantScheduler{url: "http://" + upstream}, Template: instantTemplate{}, Tokenizer: instantTokenizer{},
	})
	if err != nil {
		return "", err
	}
	go func() {
		if err := g.Run(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return g.Addr(ctx), nil
}

type instantScheduler struct {
	schedulerv1.SchedulerServiceClient
	url string
}

func (s instantScheduler) Route(context.Context, *schedulerv1.RouteRequest, ...grpc.CallOption) (
	*schedulerv1.RouteResponse, error,
) {
	return &schedulerv1.RouteResponse{
		Reservation: 1, Target: &schedulerv1.Target{WorkerId: "bench"}, HttpUrl: s.url, Policy: "instant",
		Certainty: schedulerv1.Certainty_CERTAINTY_EXACT,
	}, nil
}

func (instantScheduler) Progress(context.Context, *schedulerv1.ProgressRequest, ...grpc.CallOption) (
	*schedulerv1.ProgressResponse, error,
) {
	return &schedulerv1.ProgressResponse{}, nil
}

func (instantScheduler) Settle(context.Context, *schedulerv1.SettleRequest, ...grpc.CallOption) (
	*schedulerv1.SettleResponse, error,
) {
	return &schedulerv1.SettleResponse{}, nil
}

func (instantScheduler) ListModels(context.Context, *schedulerv1.ListModelsRequest, ...grpc.CallOption) (
	*schedulerv1.ListModelsResponse, error,
) {
	return &schedulerv1.ListModelsResponse{Models: []*schedulerv1.FleetModel{{Id: "bench", Workers: 1, ReadyWorkers: 1}}}, nil
}

type instantTemplate struct {
	templatev1.TemplateServiceClient
}

func (instantTemplate) Render(_ context.Context, q *templatev1.RenderRequest, _ ...grpc.CallOption) (
	*templatev1.RenderResponse, error,
) {
	return &templatev1.RenderResponse{Text: q.GetMessagesJson()}, nil
}

type instantTokenizer struct {
	tokenizerv1.TokenizerServiceClient
}

func (instantTokenizer) Encode(_ context.Context, q *tokenizerv1.EncodeRequest, _ ...grpc.CallOption) (
	*tokenizerv1.EncodeResponse, error,
) {
	return &tokenizerv1.EncodeResponse{TokenCount: uint32(len(q.GetText()) / 4), UnitTokens: 16}, nil
}
