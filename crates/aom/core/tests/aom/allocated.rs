//! Counts the bytes that this thread has allocated and not freed.
#![expect(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

pub fn bytes() -> usize {
    BYTES.get()
}

// SAFETY: the system's allocator does the work; the counter needs no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // The counter wraps, since a thread may free what another thread allocated.
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
