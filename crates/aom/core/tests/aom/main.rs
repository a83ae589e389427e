//! Tests what a member of a group of authenticated ordered multicast (AOM) makes of the datagrams that reach it: from an
//! honest sequencer and network, from those that lose and reorder, and from attackers.

mod allocated;
mod attacks;
mod common;
mod confirm;
mod receiver;
mod signed;
