//! Generated P4Runtime, P4Info and Reprise control messages, nothing else.
