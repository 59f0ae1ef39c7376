//! Bounds what fastokens keeps per OS thread.
//!
//! fastokens builds about 16 MB of state per thread and model at a thread's first encode. Go moves goroutines over
//! threads freely, so without a bound every thread of the process would end up with that state.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Once;

static LIMIT: AtomicUsize = AtomicUsize::new(4);
static ADMITTED: AtomicUsize = AtomicUsize::new(0);
static PREPARE: Once = Once::new();

/// Counts a thread out again when it ends.
struct Ticket(Cell<bool>);

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.0.get() {
            ADMITTED.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

thread_local! {
    static TICKET: Ticket = const { Ticket(Cell::new(false)) };
}

/// Sets how many threads may hold fastokens state without asking for it by `force`.
pub fn set_limit(threads: usize) {
    LIMIT.store(threads, Ordering::Relaxed);
}

/// Number of living threads that hold fastokens state.
pub fn admitted() -> usize {
    ADMITTED.load(Ordering::Relaxed)
}

/// Whether the calling thread may run fastokens. A thread once admitted stays so until it ends.
pub fn admit(force: bool) -> bool {
    TICKET
        .try_with(|ticket| {
            if ticket.0.get() {
                return true;
            }
            let taken = ADMITTED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
                (force || n < LIMIT.load(Ordering::Relaxed)).then_some(n + 1)
            });
            if taken.is_ok() {
                ticket.0.set(true);
            }
            taken.is_ok()
        })
        .unwrap_or(false)
}

/// Runs once, before the first engine is loaded.
pub fn prepare() {
    PREPARE.call_once(|| {
        // A panic's message can quote the text being encoded, and the default hook prints it. The caller learns of
        // the panic from the sentinel.
        std::panic::set_hook(Box::new(|_| {}));
        // Read by fastokens once, at its first encode: no thread pool of its own.
        std::env::set_var("FASTOKENS_BPE_THREADS", "1");
    });
}
