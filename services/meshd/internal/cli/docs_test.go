package cli

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvmesh/kvmesh/services/kit/bus"
	"github.com/kvmesh/kvmesh/services/kit/conf"

	"github.com/kvmesh/kvmesh/services/meshd/mesh"
)

// documents are the pages for people, by their path from the repository's root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	root := repository(t)
	pages := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "deploy/*/README.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, path := range paths {
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			name, err := filepath.Rel(root, path)
			require.NoError(t, err)
			pages[name] = string(raw)
		}
	}
	require.Contains(t, pages, "README.md")
	return pages
}

// block returns the first fenced block of a language that contains a text.
func block(t *testing.T, page, language, with string) string {
	t.Helper()
	for _, found := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(page, -1) {
		if strings.Contains(found[1], with) {
			return found[1]
		}
	}
	require.Failf(t, "no such block", "the page has no %s block with %q", language, with)
	return ""
}

var (
	quoted  = regexp.MustCompile("`([^`\n]+)`")
	link    = regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`)
	target  = regexp.MustCompile("(?m)(?:^|`)make ([a-z][a-z-]*)")
	command = regexp.MustCompile("(?m)(?:^bin/|`)kvmesh ([a-z]+(?: [a-z]+)?)")
)

// TestPagesNameWhatExists follows every link, path and make target that the pages name.
func TestPagesNameWhatExists(t *testing.T) {
	t.Parallel()
	root := repository(t)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	// A back-quoted word is a path when it begins with a folder of the repository and is no pattern or elision.
	path := regexp.MustCompile(`^(?:proto|services|gateway|tokenizer-svc|template-svc|scheduler-svc|worker-adapter|` +
		`deploy|docs|tools|bench)/[A-Za-z0-9_./-]*[A-Za-z0-9_-]$`)
	for name, page := range documents(t) {
		for _, found := range link.FindAllStringSubmatch(page, -1) {
			if !strings.Contains(found[1], "://") {
				_, err := os.Stat(filepath.Join(root, filepath.Dir(name), found[1]))
				require.NoError(t, err, "%s links %s", name, found[1])
			}
		}
		for _, found := range quoted.FindAllStringSubmatch(page, -1) {
			if path.MatchString(found[1]) {
				_, err := os.Stat(filepath.Join(root, found[1]))
				require.NoError(t, err, "%s names %s", name, found[1])
			}
		}
		for _, found := range target.FindAllStringSubmatch(page, -1) {
			require.Regexp(t, `(?m)^`+found[1]+`:`, string(makefile), "%s names make %s", name, found[1])
		}
	}
}

// TestPagesNameCommandsThatExist asks every command that a page names for its help.
func TestPagesNameCommandsThatExist(t *testing.T) {
	t.Parallel()
	for name, page := range documents(t) {
		for _, found := range command.FindAllStringSubmatch(page, -1) {
			words := strings.Fields(found[1])
			var out, errs bytes.Buffer
			for len(words) > 0 {
				out.Reset()
				errs.Reset()
				code := Run(t.Context(), Process{Args: append(words, "--help"), Stdout: &out, Stderr: &errs})
				if code == exitOK || len(words) == 1 {
					require.Equal(t, exitOK, code, "%s names kvmesh %s: %s", name, found[1], errs.String())
					break
				}
				words = words[:len(words)-1] // the second word was an argument
			}
			require.Contains(t, out.String(), "Usage: kvmesh "+words[0], "%s names kvmesh %s", name, found[1])
		}
	}
}

// TestReadmeFileIsValid loads the deployment that the README shows.
func TestReadmeFileIsValid(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	text := block(t, documents(t)["README.md"], "yaml", "workers:")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	cfg, err := mesh.Load(conf.Source{Path: file})
	require.NoError(t, err)
	require.Len(t, cfg.Mesh.Workers, 2)
	require.Len(t, cfg.Mesh.Models, 1)
	require.Equal(t, bus.Embedded, cfg.Bus.URL, "who follows the README has no NATS server")
}

// curl is a command line of curl as the pages write it: an address, -H and -d with single quotes.
type curl struct {
	url, body string
	header    http.Header
}

func parseCurl(t *testing.T, line string) curl {
	t.Helper()
	line = strings.ReplaceAll(line, "\\\n", " ")
	c := curl{header: http.Header{}}
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
			continue
		}
		words = append(words, strings.Fields(part)...)
	}
	require.Equal(t, "curl", words[0])
	c.url = words[1]
	for i := 2; i+1 < len(words); i += 2 {
		switch words[i] {
		case "-H":
			name, value, ok := strings.Cut(words[i+1], ": ")
			require.True(t, ok, words[i+1])
			c.header.Set(name, value)
		case "-d":
			c.body = words[i+1]
		default:
			require.Failf(t, "unknown flag", "curl %s", words[i])
		}
	}
	require.NotEmpty(t, c.body)
	return c
}

// answers sends what curl would and requires a completion.
func (c curl) answers(t *testing.T, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(c.body))
	require.NoError(t, err)
	req.Header = c.header
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(body))
	require.Contains(t, string(body), `"chat.completion"`)
}
