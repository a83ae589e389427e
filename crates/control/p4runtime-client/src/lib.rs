//! A P4Runtime client, for controllers of any program and any server.
//!
//! [`Client`] is a connection to one switch. It reads and writes entities; a [`Reader`] can read at the same time.
//! [`entities`] builds entities, and [`bytestring`] and [`field_match`] make the values in entities. A controller that
//! knows its program finds the objects that it uses with [`objects`]. A controller that gets names from a user finds
//! the objects with a [`P4InfoIndex`], and reads and writes their values with a [`ValueType`].
#![warn(missing_docs)]

mod batches;
pub mod bytestring;
mod client;
mod dial;
pub mod entities;
mod error;
pub mod field_match;
mod index;
pub mod limits;
pub mod objects;
mod value_type;

pub use batches::{batches, whole_batches};
pub use client::{Bid, Client, Reader};
pub use dial::{SwitchAddress, TlsFiles};
pub use error::{ClientError, WriteError};
pub use index::{Object, P4InfoIndex, alias, has_order, id_of, match_type, name_of};
pub use value_type::{Format, Kind, SECRET, ValueType, is_secret, quoted};
