//! Tokens: JSON Web Tokens (RFC 7519), signed with EdDSA or HS256.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Name, TrackKind};

/// A token's claims about its bearer (RFC 7519, section 4). The service refuses a token with any other claim.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Claims {
    /// When the token expires, in seconds since 1970. The service then removes the participant who joined with it.
    pub exp: u64,
    /// The time before which the token is not valid, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbf: Option<u64>,
    /// Who made the token. The service ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iss: Option<String>,
    /// The name of the participant who bears the token; only administrators' tokens may lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub: Option<Name>,
    /// The conference for which the token is valid. An administrator's token without it is valid for every conference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conference: Option<Name>,
    /// What the bearer may do; nothing by default.
    #[serde(default)]
    pub grants: Grants,
}

/// What the bearer of a token may do; everything that is not named is forbidden.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Grants {
    /// The kinds of tracks that may be published.
    pub publish: Vec<TrackKind>,
    /// The most that one quality of a track may send, in kbit/s.
    pub max_kbps: u32,
    /// Whether tracks of others may be received.
    pub subscribe: bool,
    /// Whether the bearer administers the token's conference (without one, all conferences): adds, removes and mutes
    /// others, and ends the conference.
    pub administer: bool,
}
