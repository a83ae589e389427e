//! The bpf(2) calls, each behind a safe function.
