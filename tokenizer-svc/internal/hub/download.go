package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// attempts is how often a download is taken up again after it broke off.
	attempts = 4
	// maxRedirects is how many redirects to storage are followed.
	maxRedirects = 5
	// maxFileBytes bounds one file.
	maxFileBytes = 1 << 30
)

// errChecksum says that the bytes are not those that the hub announced.
var errChecksum = errors.New("the file's checksum is not the one the hub announced")

// remote is what the hub says about a file before it is fetched.
type remote struct {
	// tag is the content's name: a SHA-256 for large files, a git blob's SHA-1 for small ones.
	tag  string
	size int64
}

// download fetches a file into blobs, named by its tag, and returns that name.
func (c *Client) download(ctx context.Context, address, blobs string) (string, error) {
	meta, err := c.describe(ctx, address)
	if err != nil {
		return "", err
	}
	target := filepath.Join(blobs, meta.tag)
	if _, err := os.Stat(target); err == nil {
		return meta.tag, nil
	}
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return "", fmt.Errorf("make the cache folder: %w", err)
	}
	partial := target + ".incomplete"
	for try := range attempts {
		if err = c.resume(ctx, address, partial, meta); err == nil {
			break
		}
		if ctx.Err() != nil || errors.Is(err, ErrDenied) || errors.Is(err, ErrNotFound) || try == attempts-1 {
			return "", err
		}
	}
	return meta.tag, os.Rename(partial, target)
}

// describe asks for a file's tag and size.
func (c *Client) describe(ctx context.Context, address string) (remote, error) {
	resp, err := c.head(ctx, address)
	if err != nil {
		return remote{}, err
	}
	tag := strings.Trim(strings.TrimPrefix(first(resp.Header, "X-Linked-Etag", "Etag"), "W/"), `"`)
	if tag == "" || !filepath.IsLocal(tag) || strings.ContainsAny(tag, `/\`) {
		return remote{}, errors.New("the hub names no usable etag for the file")
	}
	size, err := strconv.ParseInt(first(resp.Header, "X-Linked-Size", "Content-Length"), 10, 64)
	if err != nil || size < 0 {
		return remote{}, errors.New("the hub names no size for the file")
	}
	if size > maxFileBytes {
		return remote{}, fmt.Errorf("the file has %d bytes, more than %d", size, maxFileBytes)
	}
	return remote{tag: tag, size: size}, nil
}

// head asks for a file's headers. Redirects within the hub (renamed models) are followed; one that leaves it is the
// answer, since only the hub's own headers name the content.
func (c *Client) head(ctx context.Context, address string) (*http.Response, error) {
	for range maxRedirects {
		resp, err := c.do(ctx, http.MethodHead, address, 0)
		if err != nil {
			return nil, err
		}
		resp.Body.Close()
		if resp.StatusCode >= 400 {
			return nil, statusError(resp, address)
		}
		next, err := resp.Location()
		if err != nil || next.Host != resp.Request.URL.Host || resp.Header.Get("X-Linked-Etag") != "" {
			return resp, nil
		}
		address = next.String()
	}
	return nil, errors.New("the hub redirects too often")
}

// resume fetches what partial lacks and checks the whole.
func (c *Client) resume(ctx context.Context, address, partial string, meta remote) error {
	file, err := os.OpenFile(partial, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("open the partial file: %w", err)
	}
	defer file.Close()
	have, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if have < meta.size {
		if err := c.fetchRest(ctx, address, file, meta.size-have); err != nil {
			return err
		}
	}
	if err := verify(file, meta); err != nil {
		// What is there is wrong; the next try starts at the beginning.
		return errors.Join(err, file.Truncate(0))
	}
	return nil
}

// fetchRest appends the missing bytes to file. A server that ignores the range sends the whole, from the beginning.
func (c *Client) fetchRest(ctx context.Context, address string, file *os.File, missing int64) error {
	have, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	resp, err := c.follow(ctx, address, have)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK && have > 0 {
		if err := file.Truncate(0); err != nil {
			return err
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		missing += have
	} else if err := statusError(resp, address); err != nil {
		return err
	}
	n, err := io.Copy(file, io.LimitReader(resp.Body, missing))
	if err == nil && n < missing {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// follow gets address, through redirects to storage.
func (c *Client) follow(ctx context.Context, address string, from int64) (*http.Response, error) {
	for range maxRedirects {
		resp, err := c.do(ctx, http.MethodGet, address, from)
		if err != nil || resp.StatusCode < 300 || resp.StatusCode >= 400 {
			return resp, err
		}
		resp.Body.Close()
		next, err := resp.Location()
		if err != nil {
			return nil, fmt.Errorf("the hub redirects nowhere: %w", err)
		}
		address = next.String()
	}
	return nil, errors.New("the hub redirects too often")
}

// do sends one request. The token goes to the hub's own host and to no storage that it redirects to.
func (c *Client) do(ctx context.Context, method, address string, from int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(c.cfg.Address)
	if err != nil {
		return nil, err
	}
	if c.cfg.Token != "" && req.URL.Host == base.Host && req.URL.Scheme == base.Scheme {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	// Compression would hide the size and break ranges.
	req.Header.Set("Accept-Encoding", "identity")
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	return c.http.Do(req)
}

// first returns the first header of these that is set.
func first(h http.Header, names ...string) string {
	for _, name := range names {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}

// statusError returns nil for success and an error that says what to do about the rest.
func statusError(resp *http.Response, what string) error {
	switch {
	case resp.StatusCode < 300:
		return nil
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%s: %w", what, ErrDenied)
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	return fmt.Errorf("the hub answers %s with status %d", what, resp.StatusCode)
}

// verify compares size and checksum. A tag that is no hash is trusted for the size alone.
func verify(file *os.File, meta remote) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	var sum hash.Hash
	switch len(meta.tag) {
	case sha256.Size * 2:
		sum = sha256.New()
	case sha1.Size * 2:
		sum = sha1.New()
		fmt.Fprintf(sum, "blob %d\x00", meta.size)
	default:
		sum = nil
	}
	var sink io.Writer = io.Discard
	if sum != nil {
		sink = sum
	}
	n, err := io.Copy(sink, file)
	if err != nil {
		return err
	}
	if n != meta.size || (sum != nil && hex.EncodeToString(sum.Sum(nil)) != strings.ToLower(meta.tag)) {
		return errChecksum
	}
	return nil
}
