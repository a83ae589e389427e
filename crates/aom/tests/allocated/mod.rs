//! How many bytes this thread has allocated and not freed.
#![expect(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Of the test that runs in this thread.
pub fn bytes() -> usize {
    BYTES.get()
}

// SAFETY: the system's allocator does the work; the counter needs no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends may free what another has allocated.
        BYTES.set(BYTES.get().wrapping_add(layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get().wrapping_sub(layout.size()));
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}
