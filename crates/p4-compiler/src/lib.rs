//! P4_16 source to BMv2 JSON and P4Info; a library without I/O.
