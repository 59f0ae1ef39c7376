//go:build realvllm

package realvllm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

// TestRealWorkers holds a mesh to two real workers, one after the other: what it predicts, relays and survives.
func TestRealWorkers(t *testing.T) {
	s := start(t, 90, "--enable-lora", "--max-lora-rank", "8", "--max-loras", "2", "--lora-modules",
		fmt.Sprintf(`{"name":"harbour","path":%q,"base_model_name":"org/elsewhere"}`, adapterFolder(t, 3)))
	t.Run("parity", s.parity)
	t.Run("surface", s.surface)
	t.Run("names", s.names)
	t.Run("a prompt that is computed anew", s.anew)
	t.Run("adapters", s.adapters)
	t.Run("predictions", func(t *testing.T) {
		sum := drive(s.url, 60)
		fmt.Println("predictions under eviction:", sum)
		require.NoError(t, sum.firstError)
		require.Greater(t, sum.actual, sum.prompt/4, "conversations come back to their prefixes")
		require.Less(t, share(sum.phantom, sum.predicted), 1.0)
	})
	t.Run("a cache that others reset", s.reset)
	t.Run("a worker that is paused", s.paused)
	t.Run("a worker that is killed", s.killed)
}

// parity: every feature that the workers can be asked about is rendered here as there.
func (s *site) parity(t *testing.T) {
	until(t, time.Minute, func() error {
		f, err := s.fleet()
		if err != nil {
			return err
		}
		proven := 0
		for _, w := range f.Workers {
			for _, p := range w.Card.Parity {
				if !strings.HasSuffix(p.State, "PROVEN") {
					return fmt.Errorf("%s of %s: %s %s", p.Feature, w.Card.ID, p.State, p.Detail)
				}
				proven++
			}
		}
		if proven < 2*8 {
			return fmt.Errorf("%d features compared", proven)
		}
		fmt.Println("parity:", proven, "features of two workers proven")
		return nil
	})
}

// blank takes out of an answer what differs from call to call.
var blank = regexp.MustCompile(`"(id|request_id|item_id|created|created_at|completed_at|cached_tokens|created_cache_tokens|` +
	`cache_read_input_tokens|input_tokens|signature|system_fingerprint)":\s*("[^"]*"|[0-9.]+)|(chatcmpl|cmpl|resp|msg|rs)[-_][0-9a-zA-Z-]{6,}`)

// surface: the same request to a worker and to the mesh has the same answer.
func (s *site) surface(t *testing.T) {
	for _, row := range surface {
		status, head, want, err := post(s.workers[0].url+row.path, row.body)
		require.NoError(t, err)
		gotStatus, gotHead, got, err := post(s.url+row.path, row.body)
		require.NoError(t, err)
		name := row.path + " " + row.body
		require.Equal(t, status, gotStatus, "%s: %s", name, got)
		require.Equal(t, head.Get("Content-Type"), gotHead.Get("Content-Type"), name)
		if row.own {
			continue
		}
		require.Empty(t, cmp.Diff(blank.ReplaceAllString(string(want), "_"), blank.ReplaceAllString(string(got), "_")), name)
		require.Equal(t, strings.Count(string(want), "system_fingerprint"), strings.Count(string(got), "system_fingerprint"), name)
	}
	fmt.Println("surface:", len(surface), "requests answered alike")
}

// reset: a prefix cache that others reset is believed until the engine's next step, which costs one prediction.
func (s *site) reset(t *testing.T) {
	talk := []message{{"user", strings.Repeat("alpha beta gamma delta ", 100)}}
	for range 2 {
		_, err := ask(s.url, model, talk, false)
		require.NoError(t, err)
	}
	for _, w := range s.workers {
		status, _, _, err := post(w.url+"/reset_prefix_cache", "")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
	}
	var predicted, cached []int
	for range 3 {
		a, err := ask(s.url, model, talk, false)
		require.NoError(t, err)
		predicted, cached = append(predicted, a.predicted), append(cached, a.cached)
	}
	fmt.Println("after a reset by others: predicted", predicted, "cached", cached)
	require.Zero(t, cached[0])
	require.Equal(t, cached[2], predicted[2])
}

// paused: a paused vLLM says that it is healthy and lets requests wait; what waits there goes to the other one.
func (s *site) paused(t *testing.T) {
	status, _, _, err := post(s.workers[0].url+"/pause?mode=keep", "")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	begun := time.Now()
	sum := drive(s.url, 2)
	fmt.Printf("with a paused worker: %s; in %.1f s\n", sum, time.Since(begun).Seconds())
	require.NoError(t, sum.firstError)
	_, _, _, err = post(s.workers[0].url+"/resume", "")
	require.NoError(t, err)
	s.exact(t)
}

// killed: a worker ends under load and comes back.
func (s *site) killed(t *testing.T) {
	w := s.workers[1]
	ended := make(chan *sums, 1)
	go func() { ended <- drive(s.url, 40) }()
	time.AfterFunc(2*time.Second, w.process.kill)
	sum := <-ended
	<-w.process.done
	fmt.Println("with a worker that is killed:", sum)
	require.LessOrEqual(t, sum.failed, clients, "a stream that had begun may break, once for each client")
	w.start(t)
	w.healthy(t)
	back := time.Now()
	s.exact(t)
	fmt.Printf("exact %d ms after the worker's health\n", time.Since(back).Milliseconds())
	again := drive(s.url, 10)
	fmt.Println("after it came back:", again)
	require.NoError(t, again.firstError)
	require.Less(t, share(again.phantom, again.predicted), 1.0)
}

// load asks a worker to load an adapter.
func (w *worker) load(t *testing.T, name, folder string) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"lora_name": name, "lora_path": folder})
	require.NoError(t, err)
	status, _, answer, err := post(w.url+"/v1/load_lora_adapter", string(body))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, "%s", answer)
}

// names: what the model computed under one of its names it finds under the others, and an adapter is known whatever its base
// model is called there.
func (s *site) names(t *testing.T) {
	for _, names := range [][]string{{model, further, model}, {"harbour", "harbour"}} {
		talk := []message{{"user", strings.Repeat("ships pass the "+names[0]+" light at night ", 60)}}
		for i, name := range names {
			a, err := ask(s.url, name, talk, false)
			require.NoError(t, err)
			require.Equal(t, a.cached, a.predicted, name)
			require.Equal(t, i > 0, a.cached > 0, "%s, time %d", name, i)
			fmt.Printf("%s: predicted %d, cached %d\n", name, a.predicted, a.cached)
		}
	}
}

// anew: vLLM reads no cache where log probabilities of the prompt are asked for, nor for a chat's echo.
func (s *site) anew(t *testing.T) {
	talk := []message{{"user", strings.Repeat("the fog lifts in the morning ", 60)}}
	for _, more := range []map[string]any{nil, {"echo": true, "logprobs": true}, {"prompt_logprobs": 0}, nil} {
		a, err := askWith(s.url, model, talk, more)
		require.NoError(t, err)
		require.Equal(t, a.cached, a.predicted, more)
		fmt.Printf("%v: predicted %d, cached %d\n", more, a.predicted, a.cached)
	}
}

// adapters: a LoRA adapter has blocks of its own at the worker that has it, and loses them when its name is pointed elsewhere.
func (s *site) adapters(t *testing.T) {
	w := s.workers[0]
	first, second := adapterFolder(t, 1), adapterFolder(t, 2)
	w.load(t, "tide", first)
	talk := []message{{"user", strings.Repeat("how high is the water in the harbour ", 60)}}
	say := func() (a answered) {
		until(t, time.Minute, func() (err error) {
			a, err = ask(s.url, "tide", talk, false)
			return err
		})
		return a
	}
	require.Zero(t, say().predicted)
	hit := say()
	require.Positive(t, hit.cached)
	require.Equal(t, hit.cached, hit.predicted)
	require.Equal(t, "gpu-0", hit.worker)
	status, _, _, err := post(w.url+"/v1/unload_lora_adapter", `{"lora_name":"tide"}`)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	w.load(t, "tide", second)
	begun, wrong := time.Now(), 0
	for time.Since(begun) < 4*time.Second {
		if a := say(); a.predicted != a.cached {
			wrong++
		}
	}
	last := say()
	fmt.Println("an adapter pointed elsewhere by others:", wrong, "predictions wrong, then right")
	require.Equal(t, last.cached, last.predicted)
}
