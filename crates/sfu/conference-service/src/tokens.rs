//! Checks tokens, and decides what their bearers may do.

use conference_api::{Claims, Grants, Name, TrackKind};
use jsonwebtoken::{
    Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, decode_header, encode,
};

/// The shortest secret for HS256, in bytes (RFC 7518, section 3.2).
pub const SECRET_LEN_MIN: usize = 32;

/// Why a request is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    #[error("expected a token (\"Authorization: Bearer TOKEN\"), found none")]
    NoToken,
    #[error("the token is not good: {0}")]
    BadToken(String),
    /// The token is good, but does not allow the request.
    #[error("the token does not allow this: {0}")]
    Forbidden(String),
}

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadKey {
    /// The secret is so short that it can be guessed.
    #[error(
        "expected a secret of at least {SECRET_LEN_MIN} bytes, found {0}: make one with `openssl rand -hex 32`"
    )]
    Short(usize),
    /// The text is no public key.
    #[error("expected an Ed25519 public key as PEM: {0}")]
    NoKey(jsonwebtoken::errors::Error),
}

/// The keys that verify tokens.
#[derive(Default)]
pub struct Keys {
    keys: Vec<(Algorithm, DecodingKey)>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} keys", self.keys.len())
    }
}

impl Keys {
    /// Adds a secret for HS256. The same secret also makes tokens.
    ///
    /// # Errors
    /// The secret is too short.
    pub fn add_secret(&mut self, secret: &[u8]) -> Result<(), BadKey> {
        if secret.len() < SECRET_LEN_MIN {
            return Err(BadKey::Short(secret.len()));
        }
        let key = DecodingKey::from_secret(secret);
        self.keys.push((Algorithm::HS256, key));
        Ok(())
    }

    /// Adds a public key for EdDSA, as PEM.
    ///
    /// # Errors
    /// The text is no such key.
    pub fn add_public_key(&mut self, pem: &[u8]) -> Result<(), BadKey> {
        let key = DecodingKey::from_ed_pem(pem).map_err(BadKey::NoKey)?;
        self.keys.push((Algorithm::EdDSA, key));
        Ok(())
    }

    /// Checks a token.
    ///
    /// # Errors
    /// The token was signed with none of the keys, it has expired or is not valid yet, or it has claims that no token
    /// of this service has.
    pub fn check(&self, token: &str) -> Result<Caller, NotAllowed> {
        let bad = |error: jsonwebtoken::errors::Error| NotAllowed::BadToken(error.to_string());
        let algorithm = decode_header(token).map_err(bad)?.alg;
        let mut why = NotAllowed::BadToken(format!("no key of this service is for {algorithm:?}"));
        for (of, key) in &self.keys {
            if *of != algorithm {
                continue;
            }
            let mut validation = Validation::new(algorithm);
            validation.leeway = 0;
            validation.validate_nbf = true;
            validation.validate_aud = false;
            match decode::<Claims>(token, key, &validation) {
                Ok(decoded) => return Caller::new(decoded.claims),
                Err(error) => why = bad(error),
            }
        }
        Err(why)
    }
}

/// Makes a secret that nobody can guess.
#[must_use]
pub fn new_secret() -> [u8; SECRET_LEN_MIN] {
    let mut secret = [0; SECRET_LEN_MIN];
    // The system's random number generator fails only on a system that has none.
    getrandom::fill(&mut secret).unwrap_or_else(|error| unreachable!("{error}"));
    secret
}

/// Makes a token with a secret (HS256).
///
/// # Errors
/// The claims cannot be written.
pub fn sign(claims: &Claims, secret: &[u8]) -> Result<String, NotAllowed> {
    let key = EncodingKey::from_secret(secret);
    let token = encode(&Header::new(Algorithm::HS256), claims, &key);
    token.map_err(|error| NotAllowed::BadToken(error.to_string()))
}

/// Who makes a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    claims: Claims,
}

impl Caller {
    fn new(claims: Claims) -> Result<Caller, NotAllowed> {
        let lacks = |what: &str| {
            Err(NotAllowed::BadToken(format!(
                "only an administrator's token lacks {what}"
            )))
        };
        match (&claims.conference, &claims.sub) {
            (None, _) if !claims.grants.administer => lacks("\"conference\""),
            (_, None) if !claims.grants.administer => lacks("\"sub\""),
            _ => Ok(Caller { claims }),
        }
    }

    /// Returns when the caller's token ends, in milliseconds since 1970.
    #[must_use]
    pub fn expires_ms(&self) -> u64 {
        self.claims.exp.saturating_mul(1_000)
    }

    /// Returns the conference that the caller's token is for; `None`: all conferences.
    #[must_use]
    pub fn conference(&self) -> Option<&Name> {
        self.claims.conference.as_ref()
    }

    /// Returns the participant to whom the token belongs.
    #[must_use]
    pub fn participant(&self) -> Option<&Name> {
        self.claims.sub.as_ref()
    }

    /// Returns what the caller's token allows.
    #[must_use]
    pub fn grants(&self) -> &Grants {
        &self.claims.grants
    }

    /// Whether the caller is an administrator of a conference.
    #[must_use]
    pub fn administers(&self, conference: &Name) -> bool {
        let of = self.claims.conference.as_ref();
        self.claims.grants.administer && of.is_none_or(|of| of == conference)
    }

    /// # Errors
    /// The caller is no administrator of all conferences.
    pub fn expect_administrator_of_all(&self) -> Result<(), NotAllowed> {
        if self.claims.grants.administer && self.claims.conference.is_none() {
            return Ok(());
        }
        let why = "it is for an administrator of all conferences (grant \"administer\", no \"conference\")";
        Err(NotAllowed::Forbidden(why.to_owned()))
    }

    /// # Errors
    /// The caller is no administrator of the conference.
    pub fn expect_administrator(&self, conference: &Name) -> Result<(), NotAllowed> {
        if self.administers(conference) {
            return Ok(());
        }
        Err(NotAllowed::Forbidden(format!(
            "it is for an administrator of conference {conference} (grant \"administer\")"
        )))
    }

    /// # Errors
    /// The caller's token is for another conference.
    pub fn expect_in(&self, conference: &Name) -> Result<(), NotAllowed> {
        match &self.claims.conference {
            Some(other) if other != conference => Err(NotAllowed::Forbidden(format!(
                "it is for conference {other}, not {conference}"
            ))),
            _ => Ok(()),
        }
    }

    /// # Errors
    /// The caller is neither this participant nor an administrator.
    pub fn expect_participant(&self, conference: &Name, who: &Name) -> Result<(), NotAllowed> {
        self.expect_in(conference)?;
        if self.claims.sub.as_ref() == Some(who) || self.administers(conference) {
            return Ok(());
        }
        let own = self.claims.sub.as_ref().map_or("nobody", Name::as_str);
        Err(NotAllowed::Forbidden(format!(
            "it is for participant {own}, not {who}"
        )))
    }

    /// # Errors
    /// The caller may not publish such a track at this rate.
    pub fn expect_publisher(&self, kind: TrackKind, kbps: u32) -> Result<(), NotAllowed> {
        let grants = &self.claims.grants;
        if !grants.publish.contains(&kind) {
            let kinds = format!("{:?}", grants.publish).to_lowercase();
            return Err(NotAllowed::Forbidden(format!(
                "it may publish {kinds}, not {}",
                format!("{kind:?}").to_lowercase()
            )));
        }
        if kbps > grants.max_kbps {
            return Err(NotAllowed::Forbidden(format!(
                "it may publish at most {} kbit/s, not {kbps}",
                grants.max_kbps
            )));
        }
        Ok(())
    }

    /// # Errors
    /// The caller may not receive.
    pub fn expect_subscriber(&self) -> Result<(), NotAllowed> {
        if self.claims.grants.subscribe {
            return Ok(());
        }
        Err(NotAllowed::Forbidden(
            "it may not receive (grant \"subscribe\")".to_owned(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::now_ms;

    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    fn claims() -> Claims {
        Claims {
            exp: now_ms() / 1_000 + 60,
            nbf: None,
            iss: None,
            sub: Some(name("ann")),
            conference: Some(name("c")),
            grants: Grants {
                publish: vec![TrackKind::Audio],
                max_kbps: 100,
                subscribe: false,
                administer: false,
            },
        }
    }

    fn keys() -> Keys {
        let mut keys = Keys::default();
        keys.add_secret(SECRET).expect("a secret");
        keys
    }

    fn checked(claims: &Claims) -> Result<Caller, NotAllowed> {
        keys().check(&sign(claims, SECRET).expect("a token"))
    }

    #[test]
    fn a_token_allows_what_it_says_and_no_more() {
        let caller = checked(&claims()).expect("it is good");
        let (c, d, ann, bob) = (name("c"), name("d"), name("ann"), name("bob"));
        assert_eq!(caller.expect_participant(&c, &ann), Ok(()));
        let why = |result: Result<(), NotAllowed>| result.expect_err("not allowed").to_string();
        assert!(
            why(caller.expect_participant(&c, &bob))
                .ends_with("it is for participant ann, not bob")
        );
        assert!(
            why(caller.expect_participant(&d, &ann)).ends_with("it is for conference c, not d")
        );
        assert!(why(caller.expect_administrator(&c)).contains("administrator of conference c"));
        assert!(why(caller.expect_administrator_of_all()).contains("all conferences"));
        assert_eq!(caller.expect_publisher(TrackKind::Audio, 100), Ok(()));
        assert!(why(caller.expect_publisher(TrackKind::Audio, 101)).contains("at most 100 kbit/s"));
        assert!(why(caller.expect_publisher(TrackKind::Video, 1)).contains("[audio], not video"));
        assert!(why(caller.expect_subscriber()).contains("may not receive"));
    }

    #[test]
    fn tokens_of_others_expired_and_early_ones_are_not_good() {
        let past = Claims {
            exp: now_ms() / 1_000 - 1,
            ..claims()
        };
        let early = Claims {
            nbf: Some(now_ms() / 1_000 + 30),
            ..claims()
        };
        let without = Claims {
            sub: None,
            ..claims()
        };
        let everywhere = Claims {
            conference: None,
            ..claims()
        };
        for bad in [past, early, without, everywhere] {
            assert!(
                matches!(checked(&bad), Err(NotAllowed::BadToken(_))),
                "{bad:?}"
            );
        }
        let foreign = sign(&claims(), b"another secret of thirty-two byt").expect("a token");
        assert!(keys().check(&foreign).is_err());
        // A token with the algorithm "none" is refused, and so is a token of which one character has changed.
        assert!(keys().check("eyJhbGciOiJub25lIn0.e30.").is_err());
        let token = sign(&claims(), SECRET).expect("a token");
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("text");
            // Some bits of the last character are not part of the signature, so a change of these bits has no effect.
            if at + 1 < token.len() {
                assert!(keys().check(&changed).is_err(), "character {at}");
            }
        }
        assert!(Keys::default().add_secret(b"short").is_err());
        assert!(Keys::default().add_public_key(b"no key").is_err());
    }

    #[test]
    fn a_token_with_a_signature_of_a_public_keys_owner_is_good() {
        let pem = |kind: &str, key: &str| {
            format!("-----BEGIN {kind} KEY-----\n{key}\n-----END {kind} KEY-----\n")
        };
        let private = pem(
            "PRIVATE",
            "MC4CAQAwBQYDK2VwBCIEIHwHAf0EU+ia8FThyUrGlEj+X79BMK0dK98g4TWaKPD6",
        );
        let public = pem(
            "PUBLIC",
            "MCowBQYDK2VwAyEA0lFeLUPCetfMR5qAfKiwyYRCiSzLHQbsYAn2I/7Vz/U=",
        );
        let signed = |claims: &Claims| {
            let key = EncodingKey::from_ed_pem(private.as_bytes()).expect("a key");
            encode(&Header::new(Algorithm::EdDSA), claims, &key).expect("a token")
        };
        let mut keys = keys();
        let of_owner = signed(&claims());
        assert!(
            keys.check(&of_owner).is_err(),
            "nobody has told its public key"
        );
        keys.add_public_key(public.as_bytes())
            .expect("a public key");
        let caller = keys.check(&of_owner).expect("it is good");
        assert_eq!(caller.expect_participant(&name("c"), &name("ann")), Ok(()));
        let past = Claims {
            exp: now_ms() / 1_000 - 1,
            ..claims()
        };
        assert!(keys.check(&signed(&past)).is_err());
        // A token that is signed (HS256) with the public key as a secret is refused: anybody may know the public key.
        assert!(
            keys.check(&sign(&claims(), public.as_bytes()).expect("a token"))
                .is_err()
        );
        assert!(
            keys.check(&sign(&claims(), SECRET).expect("a token"))
                .is_ok()
        );
    }
}
