package served

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain fails the package if a test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// worker answers every question alike.
func worker(t *testing.T, status int, body string) (Client, string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != route {
			status = http.StatusTeapot
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return Client{HTTP: server.Client()}, server.URL
}

func TestTokenizerInfo(t *testing.T) {
	t.Parallel()
	const info = `{"tokenizer_class":"Qwen2Tokenizer","chat_template":"T","eos_token":"</s>"}`
	c, url := worker(t, http.StatusOK, info)
	for _, base := range []string{url, url + "/"} {
		got, err := c.TokenizerInfo(t.Context(), base)
		require.NoError(t, err)
		require.JSONEq(t, info, string(got))
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"the flag is missing", http.StatusNotFound, `{"detail":"Not Found"}`, "--enable-tokenizer-info-endpoint"},
		{"another method's route", http.StatusMethodNotAllowed, "", "--enable-tokenizer-info-endpoint"},
		{"a fault of the worker", http.StatusInternalServerError, "secret text", "status 500"},
		{"no JSON", http.StatusOK, "<html>", "not the description"},
		{"another JSON", http.StatusOK, `{"chat_template":"x"}`, "not the description"},
		{"too long", http.StatusOK, `{"tokenizer_class":"` + strings.Repeat("x", maxInfoBytes) + `"}`, "not the description"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c, url := worker(t, row.status, row.body)
			_, err := c.TokenizerInfo(t.Context(), url)
			require.ErrorContains(t, err, row.want)
			require.NotContains(t, err.Error(), "secret")
		})
	}
	c, _ := worker(t, http.StatusOK, "")
	_, err := c.TokenizerInfo(t.Context(), "http://127.0.0.1:1")
	require.ErrorContains(t, err, "ask the worker")
	_, err = c.TokenizerInfo(t.Context(), "http://[broken")
	require.ErrorContains(t, err, "ask the worker")
}
