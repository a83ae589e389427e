//! The service itself.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether the service drains, that is, takes no new conferences and no new participants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// True: the service takes no new conferences and no new participants; everything else goes on.
    pub draining: bool,
}
