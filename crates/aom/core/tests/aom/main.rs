//! Tests how a member of a group of authenticated ordered multicast (AOM) handles datagrams: from an honest sequencer,
//! over a network that loses and reorders them, and from attackers.

mod allocated;
mod attacks;
mod common;
mod confirm;
mod receiver;
mod signed;
