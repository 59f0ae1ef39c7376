// Package hub downloads a model's tokenizer files from a Hugging Face hub or a mirror of one into a local cache of the
// same layout, so that other tools find them there.
//
// A download continues where an earlier one stopped and counts only when the checksum that the hub names fits. When
// the hub cannot be reached, what the cache has is used.
package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/source"
)

// Config says where the hub is and where files go.
type Config struct {
	// Address is the hub's or mirror's base URL.
	Address string
	// Token is sent as a bearer token to that address only; empty for public models.
	Token string
	// CacheDir is the root of the cache.
	CacheDir string
	// Files are the names to fetch; names that the model lacks are passed over.
	Files []string
}

// Client downloads. It is safe for concurrent use for different models.
type Client struct {
	cfg  Config
	http *http.Client
}

// maxInfoBytes bounds the hub's answer about a model.
const maxInfoBytes = 16 << 20

// ErrNotFound says that the hub does not have the model, the revision or any of the files.
var ErrNotFound = errors.New("not on the hub")

// ErrDenied says that the hub wants a token, or another one.
var ErrDenied = errors.New("the hub denies access: set hub.token to one that may read this model")

// New returns a client; transport may be nil for the default.
func New(cfg Config, transport http.RoundTripper) *Client {
	cfg.Address = strings.TrimRight(cfg.Address, "/")
	return &Client{cfg: cfg, http: &http.Client{
		Transport: transport,
		// The first answer of a large file holds its checksum and redirects to storage; both are read here.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Fetch returns a directory with the model's files at the revision (a branch, tag or commit; empty means main).
func (c *Client) Fetch(ctx context.Context, model, revision string) (string, error) {
	if revision == "" {
		revision = "main"
	}
	if !filepath.IsLocal(revision) || strings.Count(model, "/") > 1 || !filepath.IsLocal(model) {
		return "", fmt.Errorf("%q at revision %q is no model name", model, revision)
	}
	info, err := c.info(ctx, model, revision)
	if err == nil {
		return c.snapshot(ctx, model, revision, info)
	}
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDenied) || ctx.Err() != nil {
		return "", err
	}
	folder := filepath.Join(c.cfg.CacheDir, source.CacheFolder(model))
	if dir, cacheErr := source.Directory(folder, model, revision); cacheErr == nil {
		return dir, nil
	}
	return "", err
}

// modelInfo is the part of the hub's answer that is read.
type modelInfo struct {
	SHA      string `json:"sha"`
	Siblings []struct {
		Name string `json:"rfilename"`
	} `json:"siblings"`
}

// info asks which commit a revision is and which files it has.
func (c *Client) info(ctx context.Context, model, revision string) (modelInfo, error) {
	var info modelInfo
	address := c.cfg.Address + "/api/models/" + escape(model) + "/revision/" + url.PathEscape(revision)
	resp, err := c.follow(ctx, address, 0) // a renamed model's answer is a redirect
	if err != nil {
		return info, err
	}
	defer resp.Body.Close()
	if err := statusError(resp, model); err != nil {
		return info, err
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxInfoBytes)).Decode(&info); err != nil {
		return info, fmt.Errorf("read the hub's answer about %q: %w", model, err)
	}
	if info.SHA == "" || !filepath.IsLocal(info.SHA) {
		return info, fmt.Errorf("the hub names no commit for %q", model)
	}
	return info, nil
}

// snapshot makes the snapshot directory of a commit, downloading what it lacks.
func (c *Client) snapshot(ctx context.Context, model, revision string, info modelInfo) (string, error) {
	folder := filepath.Join(c.cfg.CacheDir, source.CacheFolder(model))
	dir := filepath.Join(folder, "snapshots", info.SHA)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache folder: %w", err)
	}
	found := 0
	for _, sibling := range info.Siblings {
		if !slices.Contains(c.cfg.Files, sibling.Name) {
			continue
		}
		found++
		link := filepath.Join(dir, sibling.Name)
		if _, err := os.Stat(link); err == nil {
			continue
		}
		address := c.cfg.Address + "/" + escape(model) + "/resolve/" + info.SHA + "/" + url.PathEscape(sibling.Name)
		blob, err := c.download(ctx, address, filepath.Join(folder, "blobs"))
		if err != nil {
			return "", fmt.Errorf("download %s of %q: %w", sibling.Name, model, err)
		}
		if err := replaceLink(filepath.Join("..", "..", "blobs", blob), link); err != nil {
			return "", err
		}
	}
	if found == 0 {
		return "", fmt.Errorf("%q has none of %s: %w", model, strings.Join(c.cfg.Files, ", "), ErrNotFound)
	}
	return dir, writeRef(filepath.Join(folder, "refs", revision), info.SHA)
}

// replaceLink points link at target, also where an interrupted run left a dead link.
func replaceLink(target, link string) error {
	temp := link + ".new"
	_ = os.Remove(temp)
	if err := os.Symlink(target, temp); err != nil {
		return fmt.Errorf("link a cached file: %w", err)
	}
	return os.Rename(temp, link)
}

// writeRef notes the commit of a revision, which is what the cache goes by when the hub is away.
func writeRef(path, commit string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the cache folder: %w", err)
	}
	return os.WriteFile(path, []byte(commit), 0o644)
}

// escape makes a model's name part of a URL's path; the slash between owner and name stays.
func escape(model string) string {
	parts := strings.Split(model, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}
