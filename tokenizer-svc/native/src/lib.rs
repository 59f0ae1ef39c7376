//! One static archive with both tokenizer engines.
//!
//! The first line is daulet/tokenizers itself: its whole source is compiled here, unchanged, from the Go module
//! cache. `entry` adds kvmesh's own C entry points beside it: ids straight into the caller's buffer, text with a
//! length (NUL is an ordinary byte), every panic and error turned into a sentinel.

include!(concat!(env!("DAULET_TOKENIZERS_DIR"), "/src/lib.rs"));

mod engine;
mod entry;
mod thread;

/// glibc's allocator returns and re-faults the large short-lived vectors of an encode; this one keeps them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
