//! The protocol between the members of a group of authenticated ordered multicast and their configuration service, and
//! the member's side of this protocol without I/O.
//!
//! Read the modules in this order: [`keys`], the text form of keys; [`message`], the messages; [`frame`], which carries
//! messages in a stream of bytes; [`member_file`], the file that a member gets once; [`session`], the member's side of
//! a connection. TLS is the caller's task.

pub mod frame;
pub mod keys;
pub mod limits;
pub mod member_file;
pub mod message;
pub mod session;
