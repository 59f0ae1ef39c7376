package bench

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	Serve()
	os.Exit(m.Run())
}

// BenchmarkGateway prints the table and writes it to bench/gateway.txt of the repository. One iteration is the whole
// comparison.
func BenchmarkGateway(b *testing.B) {
	rounds := number(b, "KVMESH_BENCH_ROUNDS", 4)
	only := os.Getenv("KVMESH_BENCH_ONLY")
	for b.Loop() {
		table := compare(b, rounds, only).String()
		fmt.Print(table)
		if only == "" {
			path := filepath.Join("..", "..", "bench", "gateway.txt")
			require.NoError(b, os.WriteFile(path, []byte(table+notes(path)), 0o644))
		}
	}
}

// number is a variable's value, or otherwise where it is not set.
func number(tb testing.TB, variable string, otherwise int) int {
	tb.Helper()
	if text := os.Getenv(variable); text != "" {
		_, err := fmt.Sscan(text, &otherwise)
		require.NoError(tb, err, variable)
	}
	return otherwise
}

// notes is what people wrote below the table of the stored file.
func notes(path string) string {
	old, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	_, after, found := strings.Cut(string(old), "\nNotes\n")
	if !found {
		return ""
	}
	return "\nNotes\n" + after
}

// arms starts what is compared, the yardstick first.
func arms(tb testing.TB, worker target) []*arm {
	tb.Helper()
	var out []*arm
	keep := func(a *arm, err error) {
		require.NoError(tb, err)
		tb.Cleanup(a.stop)
		out = append(out, a)
	}
	for _, role := range []string{"proxy", "gateway"} {
		p, addr, err := start(role, worker.addr)
		keep(&arm{name: role, addr: addr, procs: []*process{p}}, err)
	}
	if bin := os.Getenv(binariesVariable); bin != "" {
		one, err := newSite(bin, tb.TempDir(), worker)
		require.NoError(tb, err)
		keep(one.whole("mesh"))
		many, err := newSite(bin, tb.TempDir(), worker)
		require.NoError(tb, err)
		keep(many.apart())
	}
	if bin := os.Getenv(earlierVariable); bin != "" {
		earlier, err := newSite(bin, tb.TempDir(), worker)
		require.NoError(tb, err)
		keep(earlier.whole("earlier"))
	}
	return out
}

// chosen stops the arms that are not named in KVMESH_BENCH_ARMS, or otherwise in names; all are kept where both are empty.
func chosen(all []*arm, names string) []*arm {
	if set := os.Getenv("KVMESH_BENCH_ARMS"); set != "" {
		names = set
	}
	kept := all[:0]
	for _, a := range all {
		if names == "" || slices.Contains(strings.Fields(names), a.name) {
			kept = append(kept, a)
			continue
		}
		a.stop()
	}
	return kept
}

// compare runs all scenarios for all arms, round by round, in an order that moves on.
func compare(tb testing.TB, rounds int, only string) *table {
	tb.Helper()
	p, worker := startWorker(tb)
	all := chosen(arms(tb, worker), "")
	t := newTable(rounds)
	made := newLanes(tb)
	for _, s := range scenarios() {
		if strings.Contains(s.name, only) {
			t.scenarios = append(t.scenarios, s.shorter(number(tb, "KVMESH_BENCH_SHORTER", 1)))
		}
	}
	stop := profileMesh(tb, all)
	for round := range rounds {
		for _, s := range t.scenarios {
			direct, err := s.load.run(worker.addr, made)
			require.NoError(tb, err)
			require.NoError(tb, p.ask(askForget))
			t.add("direct", s, row{p50: percentile(direct.latencies, 0.5), gap: percentile(direct.gaps, 0.99)})
			for i := range all {
				measure(tb, t, all[(i+round)%len(all)], s, run{p, made})
			}
		}
	}
	stop()
	for _, a := range all {
		t.arms = append(t.arms, a.name)
		if a.procs[0].in != nil {
			t.memory[a.name] = idle(tb, a)
		}
	}
	return t
}

// startWorker starts the mock worker, with an oracle where there are binaries for one.
func startWorker(tb testing.TB) (*process, target) {
	tb.Helper()
	environ := []string{}
	if bin := os.Getenv(binariesVariable); bin != "" {
		s, err := newSite(bin, tb.TempDir(), target{})
		require.NoError(tb, err)
		oracle, addresses, err := s.oracle()
		require.NoError(tb, err)
		tb.Cleanup(oracle.stop)
		environ = append(environ, oracleVariable+"="+addresses)
	}
	p, line, err := start("worker", "", environ...)
	require.NoError(tb, err)
	tb.Cleanup(p.stop)
	addr, events, _ := strings.Cut(line, " ")
	return p, target{addr: addr, events: events}
}

// run is what all measurements share.
type run struct {
	worker *process
	made   *lanes
}

// digest is the time that every arm is given after a run to do what it does behind its requests.
const digest = 300 * time.Millisecond

// measure runs one scenario at one arm. The arms that hear of the worker's cache hear what the run left in it when the run
// is over: that costs them CPU, and nobody's clock runs.
func measure(tb testing.TB, t *table, a *arm, s scenario, r run) {
	tb.Helper()
	before, err := a.cpu()
	require.NoError(tb, err)
	out, err := s.load.run(a.addr, r.made)
	require.NoError(tb, err, "%s at %s", s.name, a.name)
	served, err := a.cpu()
	require.NoError(tb, err)
	what := askForget
	if a.told {
		what = askTell
	}
	require.NoError(tb, r.worker.ask(what))
	time.Sleep(digest)
	after, err := a.cpu()
	require.NoError(tb, err)
	t.add(a.name, s, row{
		cpu: (after - before) / time.Duration(s.work), events: (after - served) / time.Duration(s.work), rate: float64(out.requests) / out.wall.Seconds(),
		p50: percentile(out.latencies, 0.5), gap: percentile(out.gaps, 0.99), lost: out.lost,
	})
}

// profileMesh takes a CPU profile of the all-in-one process while the rounds run, and one of all it allocated, where
// they are asked for.
func profileMesh(tb testing.TB, all []*arm) (stop func()) {
	tb.Helper()
	dir := os.Getenv(profileVariable)
	for _, a := range all {
		if dir == "" || a.name != "mesh" {
			continue
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			seconds := os.Getenv("KVMESH_BENCH_PROFILE_SECONDS")
			save(a, "profile?seconds="+seconds, filepath.Join(dir, "mesh.prof"))
		}()
		return func() {
			<-done
			save(a, "allocs", filepath.Join(dir, "mesh.allocs"))
		}
	}
	return func() {}
}

// save stores one of an arm's profiles.
func save(a *arm, name, path string) {
	resp, err := http.Get("http://" + a.admin + "/debug/pprof/" + name)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	_ = os.WriteFile(path, b, 0o644)
}
