// Package fakevllm is a simulated vLLM worker: an HTTP server, a KV event publisher and a replay socket that behave on
// the wire as a vLLM 0.32 process does, with no GPU, no model and no Python.
//
// # Model card
//
// What it says is made up: sentences, JSON and tool calls that are a function of the prompt's token ids, the seed and
// the choice's number, so equal requests get equal answers on every worker. What it does with its cache is meant to be
// exact: a block pool with hash chains, least-recently-used reuse tail first, duplicate blocks, chunked prefill,
// admission by free blocks and preemption, after which the events go out in vLLM's order and bytes. How long a step
// takes comes from a linear model with the coefficients of a profile; Speedup divides it. The block hashes are its own:
// stable over restarts, equal on all ranks and workers, and not vLLM's.
//
// Text is tokenised and chat requests are rendered by what Deps passes in. Without them it falls back to one token per
// byte and a ChatML-like template, which no real model uses: good for tests and for running alone, not for comparing
// token counts. Its version and system_fingerprint say "simulated".
//
// Faults can be switched on by configuration and while it runs, by POST /fakevllm/faults; see Faults.
package fakevllm
