package tokenizersvc

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/kvmesh/kvmesh/services/kit/conf"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/textlimit"
)

// Config is the section `tokenizer` of a deployment's file.
type Config struct {
	// Models are the tokenizers to load.
	Models []ModelConfig `yaml:"models" doc:"tokenizers to load"`
	// Hub is where models with `hub` come from.
	Hub HubConfig `yaml:"hub" doc:"where models with a hub name are downloaded from"`
	// Engine is "auto" (the fast engine where it is proven equal) or "reference".
	Engine string `yaml:"engine" doc:"auto (the fast engine where it is proven equal) or reference"`
	// FastThreads bounds the OS threads that hold state of the fast engine, about 16 MiB each per recent model.
	FastThreads int `yaml:"fast_threads" doc:"threads that may hold fast engine state, about 16 MiB each per recent model"`
	// Parallel bounds the encodes that run at once; a call into an engine cannot be cancelled.
	Parallel int `yaml:"parallel" doc:"encodes at once; the number of cores when not set"`
	// AuditEvery compares every n-th request of a model with the reference, off its path; -1 compares none.
	AuditEvery int `yaml:"audit_every" doc:"every n-th request is compared with the reference engine; -1 for none"`
	// SegmentCacheBytes bounds what is kept of earlier prompts' segments, over all models.
	SegmentCacheBytes conf.Bytes `yaml:"segment_cache_bytes" doc:"memory for the hashes of earlier prompts' segments, all models"`
	// NoSegmentCache encodes every prompt whole.
	NoSegmentCache bool `yaml:"no_segment_cache" doc:"encode every prompt whole"`
	// MaxTextBytes bounds one text.
	MaxTextBytes conf.Bytes `yaml:"max_text_bytes" doc:"longest text"`
	// MaxReferenceTextBytes bounds one text where the reference engine encodes: 1 MiB of prose takes it 0.5 s, of
	// digits up to 5 s.
	MaxReferenceTextBytes conf.Bytes `yaml:"max_reference_text_bytes" doc:"longest text where the reference engine encodes"`
	// MaxRunBytes bounds a run without a break between words, the one shape whose cost grows faster than its length:
	// 256 KiB of spaces take either engine up to 0.4 s.
	MaxRunBytes conf.Bytes `yaml:"max_run_bytes" doc:"longest run of letters, spaces or marks without a break"`
	// ReloadInterval is the time between looks for changed files; negative looks until a model is loaded. Changed files are read when two
	// looks in a row see them alike, and thrown away if they change while they are read: a file that is written in
	// place is not read half. Files that are renamed into place are safe however they were written.
	ReloadInterval time.Duration `yaml:"reload_interval" doc:"time between looks for changed files, which are read once two looks see them alike; negative for never again after a load"`
}

// ModelConfig is one tokenizer. One of Path, Hub and Worker is set.
type ModelConfig struct {
	// Name is the model id that requests use.
	Name string `yaml:"name" doc:"model id as requests use it"`
	// Path is a directory in Hugging Face layout, a cache folder models--org--name, or a cache's root.
	Path string `yaml:"path" doc:"model folder in Hugging Face layout, cache folder, or cache root"`
	// Hub is the model's name on the hub.
	Hub string `yaml:"hub" doc:"name on the hub, instead of a path"`
	// Revision is a branch, tag or commit; empty means main.
	Revision string `yaml:"revision" doc:"branch, tag or commit; main when not set"`
	// Transformers is the major version of the workers' transformers: 4 adds BOS for Llama's tokenizer class.
	Transformers int `yaml:"transformers" doc:"major version of the workers' transformers, 4 or 5; 5 when not set"`
	// Worker is the base URL of a vLLM server that tokenises for models without files here: exact, and slow.
	Worker string `yaml:"worker" doc:"base URL of a worker that tokenises, instead of a path: exact and slow"`
}

// HubConfig says where models are downloaded from and kept.
type HubConfig struct {
	// Address is the base URL of the hub or a mirror.
	Address string `yaml:"address" doc:"base URL of the hub or a mirror"`
	// Token is needed for models that are not public. It is sent to Address only and shown nowhere.
	Token string `yaml:"token" redact:"true" doc:"access token, for models that are not public"`
	// CacheDir is the root of the download cache, in Hugging Face's layout.
	CacheDir string `yaml:"cache_dir" doc:"root of the download cache; below the user's cache folder when not set"`
	// Timeout bounds the download of one model.
	Timeout time.Duration `yaml:"timeout" doc:"longest time for the download of one model"`
}

const (
	engineAuto      = "auto"
	engineReference = "reference"
	defaultHub      = "https://huggingface.co"
)

// SetDefaults fills what is not set.
func (c *Config) SetDefaults() {
	cores := runtime.GOMAXPROCS(0)
	conf.Default(&c.Engine, engineAuto)
	// Go runs a few more threads than cores; those beyond the bound hand their calls over.
	conf.Default(&c.FastThreads, min(2*cores+2, cores+8))
	conf.Default(&c.Parallel, cores)
	conf.Default(&c.AuditEvery, 4000) // the reference takes 100 times as long: 2.5 % of what encoding costs
	conf.Default(&c.SegmentCacheBytes, 64*conf.MiB)
	conf.Default(&c.MaxTextBytes, textlimit.DefaultText)
	conf.Default(&c.MaxReferenceTextBytes, textlimit.DefaultReferenceText)
	conf.Default(&c.MaxRunBytes, textlimit.DefaultRun)
	conf.Default(&c.ReloadInterval, 5*time.Second)
	conf.Default(&c.Hub.Address, defaultHub)
	conf.Default(&c.Hub.Timeout, 10*time.Minute)
	if c.Hub.CacheDir == "" {
		if base, err := os.UserCacheDir(); err == nil {
			c.Hub.CacheDir = filepath.Join(base, "kvmesh", "hub")
		}
	}
}

// Validate returns every fault, each with the path of its key.
func (c *Config) Validate() error {
	var faults conf.Faults
	faults.Require(c.Engine == engineAuto || c.Engine == engineReference, "engine", "%q is neither auto nor reference",
		c.Engine)
	for _, n := range []struct {
		path       string
		value, min int64
	}{
		{"fast_threads", int64(c.FastThreads), 2},
		{"parallel", int64(c.Parallel), 1},
		{"audit_every", int64(c.AuditEvery), -1},
		{"segment_cache_bytes", int64(c.SegmentCacheBytes), 0},
		{"max_text_bytes", int64(c.MaxTextBytes), 1},
		{"max_reference_text_bytes", int64(c.MaxReferenceTextBytes), 1},
		{"max_run_bytes", int64(c.MaxRunBytes), 1024},
	} {
		faults.Require(n.value >= n.min, n.path, "%d is below %d", n.value, n.min)
	}
	faults.Require(isHTTP(c.Hub.Address), "hub.address", "not an http or https address")
	c.validateModels(&faults)
	return faults.Err()
}

// isHTTP tests for a base address.
func isHTTP(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// validateModels checks what each entry needs and that names are unique.
func (c *Config) validateModels(faults *conf.Faults) {
	seen := map[string]bool{}
	for i, m := range c.Models {
		path := fmt.Sprintf("models[%d]", i)
		faults.Require(m.Name != "", path+".name", "missing")
		faults.Require(m.Name == "" || !seen[m.Name], path+".name", "%q is configured twice", m.Name)
		seen[m.Name] = true
		sources := 0
		for _, s := range []string{m.Path, m.Hub, m.Worker} {
			if s != "" {
				sources++
			}
		}
		faults.Require(m.Transformers == 0 || m.Transformers == 4 || m.Transformers == 5, path+".transformers",
			"%d is neither 4 nor 5", m.Transformers)
		faults.Require(sources == 1, path, "set one of path, hub and worker")
		faults.Require(m.Worker == "" || isHTTP(m.Worker), path+".worker", "not an http or https address")
		faults.Require(m.Hub == "" || c.Hub.CacheDir != "", "hub.cache_dir",
			"missing, and the user's cache folder is unknown")
	}
}
