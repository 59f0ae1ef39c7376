// Entry points of tokenizer-svc/native/src/entry.rs. `kind` is hf.Kind; sizes are bytes or ids.
#ifndef KVMESH_TOKENIZERS_H
#define KVMESH_TOKENIZERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *kvmesh_load(uint32_t kind, const uint8_t *json, size_t len, uint8_t *err, size_t *err_len);

void *kvmesh_load_tiktoken(uint32_t kind, const uint8_t *ranks, size_t ranks_len, const uint8_t *spec,
                           size_t spec_len, uint8_t *err, size_t *err_len);

// The number of ids, minus the number needed when cap is too small, or a sentinel.
ptrdiff_t kvmesh_encode(uint32_t kind, const void *t, const uint8_t *text, size_t len, uint32_t mode, uint32_t *out,
                        size_t cap);

// The number of bytes, minus the number needed when cap is too small, or a sentinel.
ptrdiff_t kvmesh_decode(uint32_t kind, const void *t, const uint32_t *ids, size_t len, bool skip_special, uint8_t *out,
                        size_t cap);

void kvmesh_free_fast(void *t);

void kvmesh_limit_threads(size_t threads);

size_t kvmesh_admitted_threads(void);

#endif
