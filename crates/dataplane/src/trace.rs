//! Everything that happens to a packet, as events for a person or a test.

/// An event.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TraceEvent {
    /// When, in the caller's nanoseconds.
    pub now: crate::Nanos,
    /// Which packet: `1`, its first clone `1.c1`, its second replica `1.r2`.
    pub packet: String,
}

/// Takes the events.
pub trait TraceSink: Send {
    /// One event, in the order of happening.
    fn event(&mut self, event: &TraceEvent);
}
