package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"

	schedulerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/scheduler/v1"
	templatev1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/template/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"

	"github.com/kvmesh/kvmesh/gateway"
)

// roleVariable makes the test binary run as one of the processes.
const roleVariable = "KVMESH_BENCH_ROLE"

// upstreamVariable is the worker's address for gateway and proxy.
const upstreamVariable = "KVMESH_BENCH_UPSTREAM"

// profileVariable is where the gateway's CPU profile goes, if anywhere.
const profileVariable = "KVMESH_BENCH_PROFILE"

// Serve runs the process's role, if it has one, and then ends the process. It answers each line on its input with the
// process's CPU time in microseconds and its resident memory in KB.
func Serve() {
	role := os.Getenv(roleVariable)
	if role == "" {
		return
	}
	var addr string
	var err error
	switch role {
	case "worker":
		var ln net.Listener
		if ln, err = net.Listen("tcp", "127.0.0.1:0"); err == nil {
			addr = ln.Addr().String()
			go serveWorker(ln)
		}
	case "proxy":
		addr, err = serveProxy(os.Getenv(upstreamVariable))
	case "gateway":
		addr, err = serveGateway(os.Getenv(upstreamVariable))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if path := os.Getenv(profileVariable); path != "" && role == "gateway" {
		f, err := os.Create(path)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		defer f.Close()
	}
	fmt.Println(addr)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if in.Text() == "gc" {
			runtime.GC()
			debug.FreeOSMemory()
			if path := os.Getenv(profileVariable); path != "" && role == "gateway" {
				if f, err := os.Create(path + ".heap"); err == nil {
					_ = pprof.WriteHeapProfile(f)
					_ = f.Close()
				}
			}
		}
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		cpu := u.Utime.Sec*1e6 + u.Utime.Usec + u.Stime.Sec*1e6 + u.Stime.Usec
		fmt.Printf("%d %d\n", cpu, resident())
	}
	pprof.StopCPUProfile()
	os.Exit(0)
}

// resident is the process's resident memory in KB.
func resident() int {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.SplitSeq(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kb int
			_, _ = fmt.Sscan(rest, &kb)
			return kb
		}
	}
	return 0
}

// serveProxy is the yardstick: Go's own reverse proxy, flushing every write.
func serveProxy(upstream string) (string, error) {
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
// as in production, to a file that keeps nothing.
func serveGateway(upstream string) (string, error) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	g, err := gateway.New(context.Background(), gateway.Config{Address: "127.0.0.1:0"}, gateway.Deps{
		Log:       slog.New(slog.NewJSONHandler(null, nil)),
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

// process is one of the started processes.
type process struct {
	addr string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	// outside tells that the process is no role of this binary.
	outside bool
}

// start runs the test binary in a role.
func start(role, upstream string) (*process, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, upstreamVariable+"="+upstream)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, in: in, out: bufio.NewReader(out)}
	line, err := p.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	p.addr = strings.TrimSpace(line)
	return p, nil
}

// usage is the process's CPU time and resident memory in KB.
func (p *process) usage(ask string) (cpu time.Duration, kb int, err error) {
	if p.outside {
		return p.usageFromProc()
	}
	if _, err := fmt.Fprintln(p.in, ask); err != nil {
		return 0, 0, err
	}
	var us int64
	_, err = fmt.Fscan(p.out, &us, &kb)
	return time.Duration(us) * time.Microsecond, kb, err
}

func (p *process) stop() {
	_ = p.in.Close()
	if p.outside {
		_ = p.cmd.Process.Signal(os.Interrupt)
	}
	_ = p.cmd.Wait()
}
