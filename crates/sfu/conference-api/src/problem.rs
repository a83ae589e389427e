//! Errors of the HTTP interface, as "problem details" (RFC 9457).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a request failed; the body of every answer whose status is 400 or more (`application/problem+json`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// A name for the kind of problem: `urn:reprise:not-found`, for example. Programs decide by it.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of problem in words, the same for all problems of this kind.
    pub title: String,
    /// The answer's HTTP status, 400 to 599.
    pub status: u16,
    /// What was expected, what came, and what to do next.
    pub detail: String,
}
