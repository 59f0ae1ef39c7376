//! C entry points. One signature for both engines; `engine` says what the handle is.
//!
//! Every function catches panics. Counts come back as non-negative numbers; a buffer that was too small gives minus
//! the needed size; failures give one of the sentinels below. No message carries text that was encoded or decoded.

use crate::{engine, thread, UnifiedTokenizer};
use fastokens::{AddedTokenPolicy, Tokenizer as Fast};
use libc::{c_void, size_t, ssize_t};
use std::panic::{catch_unwind, AssertUnwindSafe};

const REFERENCE: u32 = 0;
const FAST: u32 = 1;

const MODE_ADD_SPECIAL: u32 = 1;
const MODE_FORCE_THREAD: u32 = 2;

const PANICKED: ssize_t = ssize_t::MIN;
const FAILED: ssize_t = ssize_t::MIN + 1;
const THREAD_REFUSED: ssize_t = ssize_t::MIN + 2;
const BAD_CALL: ssize_t = ssize_t::MIN + 3;

unsafe fn slice<'a, T>(data: *const T, len: size_t) -> &'a [T] {
    if data.is_null() || len == 0 {
        return &[];
    }
    std::slice::from_raw_parts(data, len)
}

/// Writes `message` cut to the buffer's size and sets `*len` to what was written.
unsafe fn report(message: &str, out: *mut u8, len: *mut size_t) {
    let n = message.len().min(*len);
    std::ptr::copy_nonoverlapping(message.as_ptr(), out, n);
    *len = n;
}

unsafe fn loaded<T>(
    load: impl FnOnce() -> Result<T, Box<dyn std::error::Error>>,
    err: *mut u8,
    err_len: *mut size_t,
) -> *mut c_void {
    thread::prepare();
    match catch_unwind(AssertUnwindSafe(load)) {
        Ok(Ok(t)) => return Box::into_raw(Box::new(t)).cast(),
        Ok(Err(e)) => report(&e.to_string(), err, err_len),
        Err(_) => report("the engine panicked", err, err_len),
    }
    std::ptr::null_mut()
}

/// Loads a tokenizer.json. Returns null and fills `err` on failure.
#[no_mangle]
pub unsafe extern "C" fn kvmesh_load(
    kind: u32, json: *const u8, len: size_t, err: *mut u8, err_len: *mut size_t,
) -> *mut c_void {
    let json = slice(json, len);
    match kind {
        FAST => loaded(|| engine::load_fast(json), err, err_len),
        _ => loaded(|| engine::load_reference(json), err, err_len),
    }
}

/// Loads a tiktoken ranks file with its pattern and added tokens (`spec`, JSON).
#[no_mangle]
pub unsafe extern "C" fn kvmesh_load_tiktoken(
    kind: u32, ranks: *const u8, ranks_len: size_t, spec: *const u8, spec_len: size_t,
    err: *mut u8, err_len: *mut size_t,
) -> *mut c_void {
    let (ranks, spec) = (slice(ranks, ranks_len), slice(spec, spec_len));
    match kind {
        FAST => loaded(|| engine::load_fast_tiktoken(ranks, spec), err, err_len),
        _ => loaded(|| engine::load_reference_tiktoken(ranks, spec), err, err_len),
    }
}

/// Encodes `text`; invalid UTF-8 becomes U+FFFD. Ids go to `out`.
#[no_mangle]
pub unsafe extern "C" fn kvmesh_encode(
    kind: u32, t: *const c_void, text: *const u8, len: size_t, mode: u32, out: *mut u32, cap: size_t,
) -> ssize_t {
    if t.is_null() {
        return BAD_CALL;
    }
    if kind == FAST && !thread::admit(mode & MODE_FORCE_THREAD != 0) {
        return THREAD_REFUSED;
    }
    let add_special = mode & MODE_ADD_SPECIAL != 0;
    let result = catch_unwind(AssertUnwindSafe(|| {
        let text = String::from_utf8_lossy(slice(text, len));
        match kind {
            REFERENCE => engine::encode_reference(&*t.cast::<UnifiedTokenizer>(), &text, add_special).ok(),
            _ => (*t.cast::<Fast>()).encode_with_policy(&text, add_special, AddedTokenPolicy::All).ok(),
        }
    }));
    match result {
        Ok(Some(ids)) => give(&ids, out, cap),
        Ok(None) => FAILED,
        Err(_) => PANICKED,
    }
}

/// Decodes `ids` to UTF-8 in `out`. Ids outside the vocabulary are skipped.
#[no_mangle]
pub unsafe extern "C" fn kvmesh_decode(
    kind: u32, t: *const c_void, ids: *const u32, len: size_t, skip_special: bool, out: *mut u8, cap: size_t,
) -> ssize_t {
    if t.is_null() {
        return BAD_CALL;
    }
    let ids = slice(ids, len);
    let result = catch_unwind(AssertUnwindSafe(|| match kind {
        REFERENCE => engine::decode_reference(&*t.cast::<UnifiedTokenizer>(), ids, skip_special).ok(),
        _ => (*t.cast::<Fast>()).decode(ids, skip_special).ok(),
    }));
    match result {
        Ok(Some(text)) => give(text.as_bytes(), out, cap),
        Ok(None) => FAILED,
        Err(_) => PANICKED,
    }
}

unsafe fn give<T: Copy>(items: &[T], out: *mut T, cap: size_t) -> ssize_t {
    if items.len() > cap {
        return -(items.len() as ssize_t);
    }
    if !items.is_empty() {
        std::ptr::copy_nonoverlapping(items.as_ptr(), out, items.len());
    }
    items.len() as ssize_t
}

/// Frees a handle of the fast engine. The reference's handle is daulet's and is freed by its binding.
#[no_mangle]
pub unsafe extern "C" fn kvmesh_free_fast(t: *mut c_void) {
    if !t.is_null() {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(Box::from_raw(t.cast::<Fast>()))));
    }
}

/// Sets how many threads may hold fastokens state.
#[no_mangle]
pub extern "C" fn kvmesh_limit_threads(threads: size_t) {
    thread::set_limit(threads);
}

/// Number of threads that hold fastokens state now.
#[no_mangle]
pub extern "C" fn kvmesh_admitted_threads() -> size_t {
    thread::admitted()
}
