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
	"strconv"
	"sync"
	"time"
)

// load is one kind of work.
type load struct {
	lanes  int // connections that send at once
	count  int // requests over all lanes
	shape  shape
	plan   *plan // of streams, nil for plain answers
	spread bool  // lanes begin one after another over a gap, not in step
}

// outcome is what a load saw.
type outcome struct {
	requests  int
	lost      int // streams that broke off: ReverseProxy loses a few
	wall      time.Duration
	latencies []time.Duration // of plain requests
	gaps      []time.Duration // between reads of paced streams, beyond the plan's gap
}

func percentile(ds []time.Duration, p float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	slices.Sort(ds)
	return ds[min(len(ds)-1, int(p*float64(len(ds))))]
}

// run plays the load against an address.
func (l *load) run(addr string, made *lanes) (outcome, error) {
	var mu sync.Mutex
	var out outcome
	var firstErr error
	var wg sync.WaitGroup
	start := time.Now()
	for i := range l.lanes {
		n := l.count / l.lanes
		bodies := made.newBodies(l.shape, i)
		wg.Go(func() {
			if l.spread {
				time.Sleep(time.Duration(i) * l.plan.gap / time.Duration(l.lanes))
			}
			lat, gaps, err := l.lane(addr, n, bodies)
			for lost := 0; err != nil && l.plan != nil && lost < 20; lost++ {
				mu.Lock()
				out.lost++
				mu.Unlock()
				lat, gaps, err = l.lane(addr, n, bodies)
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

// appendRequest is a whole request of the load.
func (l *load) appendRequest(b, body []byte) []byte {
	b = append(b, "POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"+
		"Accept: */*\r\nUser-Agent: bench\r\n"...)
	if l.plan != nil {
		b = append(b, planHeader+": "+l.plan.String()+"\r\n"...)
	}
	b = strconv.AppendInt(append(b, "Content-Length: "...), int64(len(body)), 10)
	return append(append(b, "\r\n\r\n"...), body...)
}

// lane sends n requests, one after another, over one connection.
func (l *load) lane(addr string, n int, bodies *bodies) (latencies, gaps []time.Duration, err error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	br := bufio.NewReaderSize(c, 16<<10)
	var request []byte
	for range n {
		request = l.appendRequest(request[:0], bodies.next())
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
