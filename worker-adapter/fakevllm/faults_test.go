package fakevllm_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/worker-adapter/fakevllm"
)

const streamBody = `{"prompt":"a","max_tokens":40,"ignore_eos":true,"stream":true}`

// stream opens a stream and returns a reader of its events; the answer's body closes with the test.
func stream(t *testing.T, ctx context.Context, url, body string, headers ...string) (*http.Response, *bufio.Reader) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	return res, bufio.NewReader(res.Body)
}

// nextEvent reads one "data: …" line and the empty one behind it.
func nextEvent(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	_, err = r.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}

func TestStreamFaults(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		faults fakevllm.Faults
		check  func(t *testing.T, body string, err error)
	}{
		{
			name: "healthy", check: func(t *testing.T, body string, err error) {
				require.NoError(t, err)
				require.Equal(t, 41, strings.Count(body, "data: "))
				require.True(t, strings.HasSuffix(body, "data: [DONE]\n\n"))
			},
		},
		{
			name: "cut after three chunks", faults: fakevllm.Faults{CutStreamAfter: 3},
			check: func(t *testing.T, body string, err error) {
				require.ErrorIs(t, err, io.ErrUnexpectedEOF)
				require.Equal(t, 3, strings.Count(body, "data: "))
			},
		},
		{
			name: "error event after two chunks", faults: fakevllm.Faults{ErrorEventAfter: 2},
			check: func(t *testing.T, body string, err error) {
				require.NoError(t, err)
				events := splitEvents(body)
				require.Len(t, events, 4)
				var e struct {
					Error struct {
						Code int
						Type string
					}
				}
				require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(events[2], "data: ")), &e))
				require.Equal(t, 500, e.Error.Code)
				require.Equal(t, "InternalServerError", e.Error.Type)
				require.Equal(t, "data: [DONE]\n\n", events[3])
			},
		},
		{
			name: "held first byte", faults: fakevllm.Faults{DelayFirstByteMS: 5},
			check: func(t *testing.T, body string, err error) {
				require.NoError(t, err)
				require.True(t, strings.HasSuffix(body, "data: [DONE]\n\n"))
			},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, url := start(t, fakevllm.Config{Instant: true, Faults: row.faults})
			_, r := stream(t, t.Context(), url+"/v1/completions", streamBody)
			body, err := io.ReadAll(r)
			row.check(t, string(body), err)
		})
	}
}

func TestStatusFaultHitsOneInN(t *testing.T) {
	t.Parallel()
	_, url := start(t, fakevllm.Config{Instant: true})
	_, text := post(t, url+"/fakevllm/faults", `{"status":503,"status_one_in":3}`)
	require.JSONEq(t, `{"refuse":false,"freeze":false,"delay_first_byte_ms":0,"cut_stream_after":0,"error_event_after":0,`+
		`"status":503,"status_one_in":3,"drop_event_one_in":0,"stop_events":false,"wrong_bind":false}`, text)
	var got []int
	for range 6 {
		res, _ := post(t, url+"/v1/completions", `{"prompt":"a","max_tokens":1}`)
		got = append(got, res.StatusCode)
	}
	require.Equal(t, []int{200, 200, 503, 200, 200, 503}, got)
	res, _ := post(t, url+"/tokenize", `{"prompt":"a"}`)
	require.Equal(t, 200, res.StatusCode, "only generating routes fail")
}

func TestBadFaultsAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	s, url := start(t, fakevllm.Config{Instant: true})
	for _, row := range []struct{ name, body string }{
		{"status that is no error", `{"status":200}`},
		{"negative count", `{"cut_stream_after":-1}`},
		{"wrong type", `{"freeze":"yes"}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			res, body := post(t, url+"/fakevllm/faults", row.body)
			require.Equal(t, http.StatusBadRequest, res.StatusCode)
			require.Contains(t, body, `"detail"`)
			require.Equal(t, fakevllm.Faults{}, s.CurrentFaults())
		})
	}
}

func TestFrozenWorkerAnswersNothingButItsSwitches(t *testing.T) {
	t.Parallel()
	s, url := start(t, fakevllm.Config{Instant: true})
	_, _ = post(t, url+"/fakevllm/faults", `{"freeze":true}`)
	type result struct {
		status int
		err    error
	}
	done := make(chan result, 2)
	for _, path := range []string{"/health", "/v1/models"} {
		go func() {
			res, err := http.Get(url + path) //nolint:noctx // ends when the worker thaws
			if err == nil {
				_ = res.Body.Close()
				done <- result{status: res.StatusCode}
				return
			}
			done <- result{err: err}
		}()
	}
	require.True(t, s.CurrentFaults().Freeze)
	select {
	case r := <-done:
		t.Fatalf("a frozen worker answered %v", r)
	default:
	}
	_, _ = post(t, url+"/fakevllm/faults", `{"freeze":false}`)
	for range 2 {
		r := <-done
		require.NoError(t, r.err)
		require.Equal(t, 200, r.status)
	}
}

func TestRefusedConnectionsComeBackAtTheSamePort(t *testing.T) {
	t.Parallel()
	s, url := start(t, fakevllm.Config{Instant: true, Control: "127.0.0.1:0"})
	_, _ = post(t, url+"/ping", "") // it runs
	require.NoError(t, s.Ready(t.Context()))
	control := "http://" + s.ControlAddr() + "/fakevllm/faults"
	_, _ = post(t, control, `{"refuse":true}`)
	require.ErrorContains(t, s.Ready(t.Context()), "refuses")
	_, err := http.Get(url + "/health") //nolint:noctx // nothing listens
	require.True(t, errors.Is(err, syscall.ECONNREFUSED), "%v", err)
	_, _ = post(t, control, `{"refuse":false}`)
	res, err := http.Get(url + "/health") //nolint:noctx // answers at once
	require.NoError(t, err)
	_ = res.Body.Close()
	require.Equal(t, 200, res.StatusCode)
	res, err = http.Get("http://" + s.ControlAddr() + "/v1/models") //nolint:noctx // answers at once
	require.NoError(t, err)
	_ = res.Body.Close()
	require.Equal(t, 404, res.StatusCode, "the control port serves nothing else")
}
