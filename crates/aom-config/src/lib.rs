//! What the members of a group of authenticated ordered multicast and their configuration service say to each
//! other, and the member's side of it without I/O.
//!
//! In reading order: [`keys`] as they are written; [`message`] what is said; [`frame`] how messages follow each
//! other in a stream; [`member_file`] what a member is given once; [`session`] the member's side: bytes and the time go in, events come out. TLS is below it and
//! not here.

pub mod frame;
pub mod keys;
pub mod limits;
pub mod member_file;
pub mod message;
pub mod session;
