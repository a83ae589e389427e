//! eBPF instructions (RFC 9669), labels and jumps.
