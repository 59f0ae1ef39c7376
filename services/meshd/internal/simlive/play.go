package simlive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// answer is what one request took, in the workers' time.
type answer struct {
	ttft   time.Duration
	cached int
	prompt int
	err    error
}

// player sends a slice to a mesh.
type player struct {
	url     string
	model   string
	vocab   uint64
	speedup float64 // of the workers: a second here is so many there
	client  *http.Client
}

// lagPeriod is how often the machine is asked how late it is.
const lagPeriod = 5 * time.Millisecond

// watchLag measures how late the process is woken until stop is called, which returns the 99th percentile. It is what a
// busy machine adds to every step of the mesh and of its workers.
func watchLag() (stop func() time.Duration) {
	end, done := make(chan struct{}), make(chan []time.Duration)
	go func() {
		var late []time.Duration
		tick := time.NewTicker(lagPeriod)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-end:
				done <- late
				return
			case <-tick.C:
				now := time.Now()
				late = append(late, max(0, now.Sub(last)-lagPeriod))
				last = now
			}
		}
	}()
	return func() time.Duration {
		close(end)
		late := <-done
		if len(late) == 0 {
			return 0
		}
		slices.Sort(late)
		return late[len(late)*99/100]
	}
}

// play sends every request at its time and returns when all have been answered.
func (p *player) play(ctx context.Context, slice []request) []answer {
	out := make([]answer, len(slice))
	start := time.Now()
	var wg sync.WaitGroup
	for i := range slice {
		body := p.body(&slice[i], uint64(i))
		at := start.Add(time.Duration(slice[i].TimestampMS / p.speedup * float64(time.Millisecond)))
		timer := time.NewTimer(time.Until(at))
		select {
		case <-ctx.Done():
			timer.Stop()
			out[i].err = ctx.Err()
			continue
		case <-timer.C:
		}
		wg.Go(func() { out[i] = p.ask(ctx, body) })
	}
	wg.Wait()
	return out
}

// body is a streamed completion over token ids.
func (p *player) body(r *request, own uint64) []byte {
	b := make([]byte, 0, 256+6*r.InputLength)
	b = append(b, `{"model":`...)
	b = strconv.AppendQuote(b, p.model)
	b = strconv.AppendInt(append(b, `,"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"max_tokens":`...),
		int64(r.OutputLength), 10)
	b = append(b, `,"prompt":[`...)
	for i, id := range r.appendTokens(nil, own, p.vocab) {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(id), 10)
	}
	return append(b, ']', '}')
}

func (p *player) ask(ctx context.Context, body []byte) (a answer) {
	sent := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
		return answer{err: fmt.Errorf("status %d: %s", resp.StatusCode, text)}
	}
	a.err = p.read(resp.Body, &a, sent)
	return a
}

// read takes the time of the first chunk and the usage of the last.
func (p *player) read(body io.Reader, a *answer, sent time.Time) error {
	scan := bufio.NewScanner(body)
	scan.Buffer(make([]byte, 1<<12), 1<<20)
	for scan.Scan() {
		data, ok := strings.CutPrefix(scan.Text(), "data: ")
		if !ok {
			continue
		}
		if a.ttft == 0 {
			a.ttft = time.Duration(float64(time.Since(sent)) * p.speedup)
		}
		if data == "[DONE]" {
			return nil
		}
		var chunk struct {
			Error json.RawMessage
			Usage *struct {
				PromptTokens  int `json:"prompt_tokens"`
				PromptDetails struct {
					CachedTokens int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return fmt.Errorf("read chunk: %w", err)
		}
		if chunk.Error != nil {
			return fmt.Errorf("stream ended: %s", chunk.Error)
		}
		if u := chunk.Usage; u != nil {
			a.prompt, a.cached = u.PromptTokens, u.PromptDetails.CachedTokens
		}
	}
	if err := scan.Err(); err != nil {
		return fmt.Errorf("read stream: %w", err)
	}
	return errors.New("stream ended without [DONE]")
}
