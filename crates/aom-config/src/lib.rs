//! The protocol between the members of a group of authenticated ordered multicast and their configuration
//! service, and the member's side of it without I/O.
//!
//! In reading order: [`keys`] as text; [`message`] the messages; [`frame`] messages in a stream of bytes;
//! [`member_file`] the file that a member gets once; [`session`] the member's side: bytes and the time go in,
//! events come out. TLS is below this crate and not in it.

pub mod frame;
pub mod keys;
pub mod limits;
pub mod member_file;
pub mod message;
pub mod session;
