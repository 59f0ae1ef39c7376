//go:build realvllm

package realvllm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// get reads JSON from an address.
func get(url string, into any) error {
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %d %s %w", url, resp.StatusCode, raw, err)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(raw, into)
}

// post sends a body and reads the whole answer.
func post(url, body string) (status int, head http.Header, answer []byte, err error) {
	resp, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, answer, err
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// answered is what a chat request came to.
type answered struct {
	worker                            string
	prompt, predicted, cached, failed int
	text                              string
}

// ask sends a conversation to the mesh.
func ask(url, name string, messages []message, stream bool) (answered, error) {
	more := map[string]any{}
	if stream {
		more["stream"], more["stream_options"] = true, map[string]bool{"include_usage": true}
	}
	return askWith(url, name, messages, more)
}

// askWith is ask with further members.
func askWith(url, name string, messages []message, more map[string]any) (a answered, err error) {
	q := map[string]any{"model": name, "messages": messages, "max_tokens": 8, "temperature": 0}
	maps.Copy(q, more)
	stream := q["stream"] == true
	raw, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	status, head, body, err := post(url+"/v1/chat/completions", string(raw))
	if err != nil || status != http.StatusOK {
		return a, fmt.Errorf("%d %s %w", status, body, err)
	}
	a.worker = head.Get("X-Kvmesh-Worker")
	a.predicted, _ = strconv.Atoi(head.Get("X-Kvmesh-Predicted-Hit-Tokens"))
	for line := range bytes.Lines(body) {
		if data, ok := bytes.CutPrefix(line, []byte("data: {")); ok {
			line = append([]byte("{"), data...)
		} else if stream {
			continue
		}
		if err := a.read(line); err != nil {
			return a, err
		}
	}
	return a, nil
}

// read adds what a plain answer or one event says.
func (a *answered) read(line []byte) error {
	var c struct {
		Error   json.RawMessage
		Choices []struct{ Message, Delta struct{ Content string } }
		Usage   *struct {
			PromptTokens int `json:"prompt_tokens"`
			Details      struct {
				CachedTokens int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal(line, &c); err != nil {
		return err
	}
	if c.Error != nil {
		return fmt.Errorf("in the stream: %s", c.Error)
	}
	for _, choice := range c.Choices {
		a.text += choice.Message.Content + choice.Delta.Content
	}
	if c.Usage != nil {
		a.prompt, a.cached = c.Usage.PromptTokens, c.Usage.Details.CachedTokens
	}
	return nil
}

// sums are over a run.
type sums struct {
	mu                                                           sync.Mutex
	requests, failed, prompt, predicted, actual, phantom, missed int
	firstError                                                   error
	byWorker                                                     map[string]int
}

func (s *sums) add(a answered, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if err != nil {
		s.failed++
		if s.firstError == nil {
			s.firstError = err
		}
		return
	}
	s.prompt += a.prompt
	s.predicted += a.predicted
	s.actual += a.cached
	s.phantom += max(0, a.predicted-a.cached)
	s.missed += max(0, a.cached-a.predicted)
	s.byWorker[a.worker]++
}

func (s *sums) String() string {
	return fmt.Sprintf("%d requests (%v), %d failed; of %d prompt tokens %d predicted, %d cached by the workers' count: "+
		"%d phantom (%.3f %%), %d missed (%.3f %%)", s.requests, s.byWorker, s.failed, s.prompt, s.predicted, s.actual,
		s.phantom, share(s.phantom, s.predicted), s.missed, share(s.missed, s.actual))
}

func share(a, of int) float64 { return 100 * float64(a) / float64(max(1, of)) }

// clients is how many conversations run at once.
const clients = 12

// drive lets clients hold conversations that grow, under three shared system prompts, until each has had so many turns.
func drive(url string, turns int) *sums {
	s := &sums{byWorker: map[string]int{}}
	var wg sync.WaitGroup
	for lane := range clients {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(7, uint64(lane)))
			var talk []message
			for range turns {
				if len(talk) == 0 || len(talk) > 12 {
					talk = []message{{"system", words(rand.New(rand.NewPCG(1, r.Uint64N(3))), 300)}}
				}
				talk = append(talk, message{"user", words(r, 10+r.IntN(120))})
				a, err := ask(url, model, talk, r.IntN(3) == 0)
				s.add(a, err)
				if talk = append(talk, message{"assistant", a.text}); err != nil {
					talk = nil
				}
			}
		})
	}
	wg.Wait()
	return s
}

// words makes a text.
func words(r *rand.Rand, n int) string {
	const from = "the of and river harbour tide measure engine cache block worker prefix model token light quick brown " +
		"fox jumps lazy dog city north south water bridge code kernel"
	list := strings.Fields(from)
	var b strings.Builder
	w := bufio.NewWriter(&b)
	for range n {
		fmt.Fprint(w, list[r.IntN(len(list))], " ")
	}
	_ = w.Flush()
	return b.String()
}
