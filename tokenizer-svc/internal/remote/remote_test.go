package remote

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain fails the package if a test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// question is what vLLM's token routes are asked.
type question struct {
	Model   string   `json:"model"`
	Prompt  string   `json:"prompt"`
	Special bool     `json:"add_special_tokens"`
	Tokens  []uint32 `json:"tokens"`
}

// runes is a worker whose ids are code points, with 1 before them as special token.
func runes(t *testing.T) *Engine {
	t.Helper()
	return engine(t, func(w http.ResponseWriter, r *http.Request) {
		var q question
		if json.NewDecoder(r.Body).Decode(&q) != nil || q.Model != "m" || r.Header.Get("Content-Type") != "application/json" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if r.URL.Path == "/detokenize" {
			var text strings.Builder
			for _, id := range q.Tokens {
				text.WriteRune(rune(id))
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"prompt": text.String()})
			return
		}
		var ids []uint32
		if q.Special {
			ids = append(ids, 1)
		}
		for _, r := range q.Prompt {
			ids = append(ids, uint32(r))
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"count": len(ids), "max_model_len": 10, "tokens": ids, "token_strs": nil})
	})
}

func engine(t *testing.T, h http.HandlerFunc) *Engine {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	e := New(server.URL+"/", "m")
	t.Cleanup(e.Close)
	return e
}

func TestTheWorkersIDs(t *testing.T) {
	t.Parallel()
	e := runes(t)
	require.NoError(t, e.Check())
	for _, row := range []struct {
		name, text string
		special    bool
		want       []uint32
	}{
		{"text", "ab", false, []uint32{7, 'a', 'b'}},
		{"with special tokens", "a", true, []uint32{7, 1, 'a'}},
		{"empty", "", false, []uint32{7}},
		{"NUL and more", "\x00\u2028<é", false, []uint32{7, 0, 0x2028, '<', 'é'}},
		{"invalid UTF-8", "a\xffb", false, []uint32{7, 'a', 0xfffd, 'b'}},
	} {
		ids, err := e.AppendIDs([]uint32{7}, []byte(row.text), row.special)
		require.NoError(t, err, row.name)
		require.Equal(t, row.want, ids, row.name)
	}
	text, err := e.AppendText([]byte("x"), []uint32{'h', 'i'}, false)
	require.NoError(t, err)
	require.Equal(t, "xhi", string(text))
	_, err = e.AppendText(nil, []uint32{'h'}, true)
	require.ErrorIs(t, err, errSpecial)
}

func TestManyAskAtOnce(t *testing.T) {
	t.Parallel()
	e := runes(t)
	var group sync.WaitGroup
	for n := range 4 * maxParallel {
		group.Go(func() {
			ids, err := e.AppendIDs(nil, []byte(strings.Repeat("x", n)), false)
			if err != nil || len(ids) != n {
				t.Errorf("%d ids of %d: %v", len(ids), n, err)
			}
		})
	}
	group.Wait()
}

func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"no such route", http.StatusNotFound, "", "serves no /tokenize"},
		{"a refusal that repeats the text", http.StatusBadRequest, "secret", "status 400"},
		{"no JSON", http.StatusOK, "<html>", "not the answer"},
		{"another JSON", http.StatusOK, `{}`, "shape of its own"},
		{"a wrong count", http.StatusOK, `{"count":2,"tokens":[1]}`, "shape of its own"},
		{"negative ids", http.StatusOK, `{"count":1,"tokens":[-1]}`, "not the answer"},
		{"no ids", http.StatusOK, `{"count":0,"tokens":[]}`, "no ids"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			e := engine(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(row.status)
				_, _ = w.Write([]byte(row.body))
			})
			err := e.Check()
			require.ErrorContains(t, err, row.want)
			require.NotContains(t, err.Error(), "secret")
			if row.name != "no ids" {
				_, err = e.AppendText(nil, []uint32{1}, false)
				require.Error(t, err)
			}
		})
	}
	require.ErrorContains(t, New("http://127.0.0.1:1", "m").Check(), "ask the worker")
	require.ErrorContains(t, New("http://[broken", "m").Check(), "ask the worker")
}
