package tokenizersvc

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	faultv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/fault/v1"
	tokenizerv1 "github.com/kvmesh/kvmesh/proto/gen/kvmesh/tokenizer/v1"
	"github.com/kvmesh/kvmesh/services/kit/fault"
	"github.com/kvmesh/kvmesh/services/kit/kvblock"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/model"
	"github.com/kvmesh/kvmesh/tokenizer-svc/internal/registry"
)

// maxPooledIDs keeps the buffers of rare huge prompts out of the pool.
const maxPooledIDs = 1 << 17

// loadingRetryAfter is about what a large tokenizer needs to load.
const loadingRetryAfter = 2 * time.Second

// Encode tokenises one text.
func (s *Service) Encode(
	ctx context.Context, req *tokenizerv1.EncodeRequest,
) (*tokenizerv1.EncodeResponse, error) {
	m, err := s.acquire(req.GetModel())
	if err != nil {
		return nil, err
	}
	defer m.Release()
	return s.encode(ctx, m, req)
}

// EncodeBatch tokenises many texts of one model on all cores. One failing text fails the batch.
func (s *Service) EncodeBatch(
	ctx context.Context, req *tokenizerv1.EncodeBatchRequest,
) (*tokenizerv1.EncodeBatchResponse, error) {
	m, err := s.acquire(req.GetModel())
	if err != nil {
		return nil, err
	}
	defer m.Release()
	results := make([]*tokenizerv1.EncodeResponse, len(req.GetTexts()))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.cfg.Parallel)
	for i, text := range req.GetTexts() {
		group.Go(func() error {
			var err error
			results[i], err = s.encode(ctx, m, &tokenizerv1.EncodeRequest{
				Model: req.GetModel(), Text: text, AddSpecialTokens: req.GetAddSpecialTokens(),
				Salting: req.GetSalting(), WantTokenIds: req.GetWantTokenIds(),
			})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return &tokenizerv1.EncodeBatchResponse{Results: results}, nil
}

// HashTokens hashes a prompt given as ids. A model without a loaded tokenizer is hashed all the same.
func (s *Service) HashTokens(
	_ context.Context, req *tokenizerv1.HashTokensRequest,
) (*tokenizerv1.HashTokensResponse, error) {
	if m, err := s.registry.Acquire(req.GetModel()); err == nil {
		defer m.Release()
		if err := checkIDs(m, req.GetTokenIds()); err != nil {
			return nil, err
		}
	}
	hashes, unit := hash(req.GetModel(), req.GetSalting(), req.GetTokenIds())
	return &tokenizerv1.HashTokensResponse{UnitHashes: hashes, UnitTokens: unit}, nil
}

// encode does one text with a model that the caller holds. It works in pooled memory: a message keeps what it is given
// for as long as its receiver likes.
func (s *Service) encode(
	ctx context.Context, m *model.Model, req *tokenizerv1.EncodeRequest,
) (*tokenizerv1.EncodeResponse, error) {
	fast, _ := m.Fast()
	if err := s.limits.Check(req.GetText(), fast); err != nil {
		return nil, err
	}
	if err := checkCuts(req); err != nil {
		return nil, err
	}
	if !m.Remote() {
		if err := s.enter(ctx); err != nil {
			return nil, err
		}
		defer s.leave()
	}
	start := time.Now()
	e := s.encodings.Get().(*model.Encoding)
	defer func() {
		if e.Cap() <= maxPooledIDs {
			e.Reset()
			s.encodings.Put(e)
		}
	}()
	in := unitHashes(req.GetSalting())
	r := model.Request{
		Text: req.GetText(), Cuts: req.GetCuts(), AddSpecial: req.GetAddSpecialTokens(), WantIDs: req.GetWantTokenIds() || !in,
		Root: root(req.GetModel(), req.GetSalting()), Salt: req.GetSalting().GetCacheSalt(),
	}
	if err := m.Units(e, r); err != nil {
		return nil, fault.Wrap(faultv1.Reason_REASON_TOKENIZER_FAILED, err, "the tokenizer of %q refused the text",
			m.Name())
	}
	s.metrics.encoded(m, len(req.GetText()), e.Tokens(), time.Since(start))
	s.audit(m, r, e)
	resp := &tokenizerv1.EncodeResponse{TokenCount: uint32(e.Tokens()), UnitTokens: kvblock.UnitTokens}
	if in {
		resp.UnitHashes = append(make([]uint64, 0, len(e.Units())), e.Units()...)
	} else {
		resp.UnitHashes, resp.UnitTokens = hash(req.GetModel(), req.GetSalting(), e.IDs())
	}
	if req.GetWantTokenIds() {
		resp.TokenIds = append(make([]uint32, 0, len(e.IDs())), e.IDs()...)
	}
	return resp, nil
}

// audit offers a served encoding for comparison.
func (s *Service) audit(m *model.Model, r model.Request, e *model.Encoding) {
	if len(r.Cuts) > 0 {
		return
	}
	served := model.Served{Request: r, Units: e.Units(), Tokens: e.Tokens()}
	if r.WantIDs {
		served.IDs = e.IDs()
	}
	s.auditor.Offer(m, served)
}

// checkCuts refuses offsets that are not in order or outside the text, and special tokens, which go around a whole.
func checkCuts(req *tokenizerv1.EncodeRequest) error {
	if len(req.GetCuts()) == 0 {
		return nil
	}
	if req.GetAddSpecialTokens() || !slices.IsSorted(req.GetCuts()) ||
		int(req.GetCuts()[len(req.GetCuts())-1]) > len(req.GetText()) {
		return fault.New(faultv1.Reason_REASON_INVALID_REQUEST,
			"cuts are ascending offsets into the text, without add_special_tokens").WithParam("cuts")
	}
	return nil
}

// unitHashes tells whether a worker's blocks are whole numbers of units, which are hashed then.
func unitHashes(salting *tokenizerv1.Salting) bool {
	return salting.GetBlockTokens()%kvblock.UnitTokens == 0
}

// root is the root of the chains of unit hashes.
func root(name string, salting *tokenizerv1.Salting) uint64 {
	return kvblock.Namespace{Model: name, LoRA: salting.GetLoraName()}.Root()
}

// hash returns the hashes of the full units of ids, or of the worker's own blocks where those are no units.
func hash(name string, salting *tokenizerv1.Salting, ids []uint32) (hashes []uint64, unitTokens uint32) {
	if unitHashes(salting) {
		hashes = make([]uint64, 0, len(ids)/kvblock.UnitTokens)
		return kvblock.AppendUnits(hashes, root(name, salting), ids, salting.GetCacheSalt()), kvblock.UnitTokens
	}
	block := int(salting.GetBlockTokens())
	hashes = make([]uint64, 0, len(ids)/block)
	return kvblock.AppendBlocks(hashes, root(name, salting), ids, block, salting.GetCacheSalt()), uint32(block)
}

// acquire maps the registry's errors to faults. The caller releases the model.
func (s *Service) acquire(name string) (*model.Model, error) {
	m, err := s.registry.Acquire(name)
	if err == nil {
		return m, nil
	}
	var notReady *registry.NotReadyError
	if !errors.As(err, &notReady) {
		return nil, fault.New(faultv1.Reason_REASON_MODEL_NOT_FOUND, "no tokenizer is configured for the model %q",
			name).WithParam("model")
	}
	switch notReady.Status.State {
	case registry.Loading:
		return nil, fault.New(faultv1.Reason_REASON_MODEL_LOADING, "the tokenizer of %q is loading", name).
			WithRetryAfter(loadingRetryAfter)
	case registry.Unsupported:
		return nil, fault.New(faultv1.Reason_REASON_UNSUPPORTED_MODEL, "the tokenizer of %q is not usable: %s", name,
			notReady.Status.Detail)
	default:
		// The detail may name files of this machine: it is for the log and for ListModels.
		return nil, fault.Wrap(faultv1.Reason_REASON_TOKENIZER_FAILED, err, "the tokenizer of %q could not be loaded",
			name)
	}
}

// enter waits for a slot: a call into an engine cannot be cancelled and holds a thread, so few may run at once.
func (s *Service) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return fault.From(context.Cause(ctx))
	}
	select {
	case s.slots <- struct{}{}: // without a look at Done, which costs a timer
		return nil
	default:
	}
	select {
	case s.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.From(context.Cause(ctx))
	}
}

// leave gives the slot back.
func (s *Service) leave() { <-s.slots }
