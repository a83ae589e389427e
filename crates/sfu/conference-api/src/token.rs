//! Tokens: JSON Web Tokens (RFC 7519), signed with EdDSA or HS256.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Name, TrackKind};

/// What a token says of its bearer (RFC 7519, section 4). A token with any other claim is refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// Until when it is good, in seconds since 1970. A participant ends with its token.
    pub exp: u64,
    /// From when on it is good, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbf: Option<u64>,
    /// Who made it; not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    /// The participant that its bearer is; only administrators' tokens lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub: Option<Name>,
    /// The conference that it is for; without it every conference, which only administrators' tokens can be for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conference: Option<Name>,
    /// What the bearer may do; nothing by default.
    #[serde(default)]
    pub grants: Grants,
}

/// What the bearer of a token may do. What is not named is not allowed.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Grants {
    /// The kinds of tracks that may be published.
    pub publish: Vec<TrackKind>,
    /// The most that one quality of a track may send, in kbit/s.
    pub max_kbps: u32,
    /// Whether tracks of others may be received.
    pub subscribe: bool,
    /// Whether everything may be done that the token's conference, or every conference, allows: add, remove and mute
    /// others, end the conference.
    pub administer: bool,
}
