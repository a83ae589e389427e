//! The service itself.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether the service drains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Drain {
    /// A service that drains takes no new conferences and no new participants; everything else goes on.
    pub draining: bool,
}
