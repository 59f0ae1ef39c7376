package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// load is one kind of work against one address.
type load struct {
	addr  string
	lanes int // connections that send at once
	count int // requests over all lanes
	body  []byte
	plan  *plan // of streams, nil for plain answers
}

// outcome is what a load saw.
type outcome struct {
	requests  int
	lost      int // streams that broke off: ReverseProxy loses a few
	wall      time.Duration
	latencies []time.Duration // of plain requests
	gaps      []time.Duration // between reads of paced streams, beyond the plan's gap
}

func (o *outcome) percentile(ds []time.Duration, p float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	return ds[min(len(ds)-1, int(p*float64(len(ds))))]
}

// chatBody is a chat request of about n bytes.
func chatBody(n int, stream bool) []byte {
	flag := ""
	if stream {
		flag = `"stream":true,`
	}
	head := `{"model":"bench",` + flag + `"temperature":0.7,"messages":[{"role":"system","content":"You are brief."},` +
		`{"role":"user","content":"`
	tail := `"}]}`
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", n/44+1)
	return []byte(head + text[:max(1, n-len(head)-len(tail))] + tail)
}

// run plays the load.
func (l *load) run() (outcome, error) {
	var mu sync.Mutex
	var out outcome
	var firstErr error
	var wg sync.WaitGroup
	start := time.Now()
	for range l.lanes {
		n := l.count / l.lanes
		wg.Go(func() {
			lat, gaps, err := l.lane(n)
			for lost := 0; err != nil && l.plan != nil && lost < 20; lost++ {
				mu.Lock()
				out.lost++
				mu.Unlock()
				lat, gaps, err = l.lane(n)
			}
			mu.Lock()
			defer mu.Unlock()
			out.requests += n
			out.latencies = append(out.latencies, lat...)
			out.gaps = append(out.gaps, gaps...)
			if err != nil && firstErr == nil {
				firstErr = err
			}
		})
	}
	wg.Wait()
	out.wall = time.Since(start)
	return out, firstErr
}

// lane sends n requests, one after another, over one connection.
func (l *load) lane(n int) (latencies, gaps []time.Duration, err error) {
	c, err := net.Dial("tcp", l.addr)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	br := bufio.NewReaderSize(c, 16<<10)
	extra := ""
	if l.plan != nil {
		extra = planHeader + ": " + l.plan.String() + "\r\n"
	}
	request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"+
		"Accept: */*\r\nUser-Agent: bench\r\n%sContent-Length: %d\r\n\r\n%s", extra, len(l.body), l.body)
	for range n {
		begun := time.Now()
		if _, err := c.Write(request); err != nil {
			return nil, nil, err
		}
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			return nil, nil, err
		}
		if resp.StatusCode != http.StatusOK {
			b, _ := io.ReadAll(resp.Body)
			return nil, nil, fmt.Errorf("status %d: %s", resp.StatusCode, b)
		}
		if l.plan == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			latencies = append(latencies, time.Since(begun))
		} else {
			gaps, err = l.readStream(resp.Body, gaps)
		}
		_ = resp.Body.Close()
		if err != nil {
			return nil, nil, err
		}
	}
	return latencies, gaps, nil
}

// readStream reads a stream to its end and checks that it is whole.
func (l *load) readStream(body io.Reader, gaps []time.Duration) ([]time.Duration, error) {
	buf := make([]byte, 32<<10)
	last, tail := time.Time{}, []byte{}
	total := 0
	for {
		n, err := body.Read(buf)
		now := time.Now()
		if n > 0 {
			total += bytes.Count(buf[:n], []byte("\n\n"))
			tail = append(tail[:0], buf[max(0, n-16):n]...)
			if l.plan.gap > 0 && !last.IsZero() {
				gaps = append(gaps, now.Sub(last)-l.plan.gap)
			}
			last = now
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return gaps, err
		}
	}
	if !bytes.HasSuffix(tail, []byte("[DONE]\n\n")) || total < l.plan.events+2 {
		return gaps, fmt.Errorf("a stream of %d events ended with %q", total, tail)
	}
	return gaps, nil
}
