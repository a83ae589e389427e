//! Protection profiles and master keys.

use zeroize::Zeroizing;

/// A protection profile: cipher, lengths of keys and tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// `SRTP_AES128_CM_HMAC_SHA1_80` (RFC 5764, section 4.1.2): for peers without an AEAD profile.
    AesCm128HmacSha1_80,
    /// `SRTP_AEAD_AES_128_GCM` (RFC 7714, section 14.2).
    AeadAes128Gcm,
    /// `SRTP_AEAD_AES_256_GCM` (RFC 7714, section 14.2).
    AeadAes256Gcm,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Profile; 3] = [
        Profile::AesCm128HmacSha1_80,
        Profile::AeadAes128Gcm,
        Profile::AeadAes256Gcm,
    ];

    /// The profile's number in DTLS' extension `use_srtp` (IANA, "DTLS-SRTP Protection Profiles").
    #[must_use]
    pub fn number(self) -> u16 {
        match self {
            Profile::AesCm128HmacSha1_80 => 1,
            Profile::AeadAes128Gcm => 7,
            Profile::AeadAes256Gcm => 8,
        }
    }

    /// The profile with this number, if it is one of these.
    #[must_use]
    pub fn of_number(number: u16) -> Option<Profile> {
        Profile::ALL.into_iter().find(|it| it.number() == number)
    }

    /// Bytes of the master key.
    #[must_use]
    pub fn key_bytes(self) -> usize {
        match self {
            Profile::AesCm128HmacSha1_80 | Profile::AeadAes128Gcm => 16,
            Profile::AeadAes256Gcm => 32,
        }
    }

    /// Bytes of the master salt.
    #[must_use]
    pub fn salt_bytes(self) -> usize {
        match self {
            Profile::AesCm128HmacSha1_80 => 14,
            Profile::AeadAes128Gcm | Profile::AeadAes256Gcm => 12,
        }
    }

    /// Bytes of a packet's tag.
    #[must_use]
    pub fn tag_bytes(self) -> usize {
        match self {
            Profile::AesCm128HmacSha1_80 => 10,
            Profile::AeadAes128Gcm | Profile::AeadAes256Gcm => 16,
        }
    }
}

/// A master key or salt of the wrong length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{profile:?}: expected a {what} of {expected} bytes, found {found}")]
pub struct BadKey {
    profile: Profile,
    what: &'static str,
    expected: usize,
    found: usize,
}

/// The master key and salt of one direction. They are overwritten when the value is dropped.
pub struct MasterKey {
    profile: Profile,
    key: Zeroizing<Vec<u8>>,
    salt: Zeroizing<[u8; 14]>,
}

impl MasterKey {
    /// Takes a key and a salt.
    ///
    /// # Errors
    /// One of them does not have the profile's length.
    pub fn new(profile: Profile, key: &[u8], salt: &[u8]) -> Result<MasterKey, BadKey> {
        for (what, expected, found) in [
            ("key", profile.key_bytes(), key.len()),
            ("salt", profile.salt_bytes(), salt.len()),
        ] {
            if expected != found {
                return Err(BadKey {
                    profile,
                    what,
                    expected,
                    found,
                });
            }
        }
        // RFC 7714, section 11: the salt of 12 bytes gets two bytes of zeros at its end for the derivation.
        let mut padded = Zeroizing::new([0; 14]);
        padded[..salt.len()].copy_from_slice(salt);
        Ok(MasterKey {
            profile,
            key: Zeroizing::new(key.to_vec()),
            salt: padded,
        })
    }

    pub(crate) fn profile(&self) -> Profile {
        self.profile
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(crate) fn salt(&self) -> &[u8; 14] {
        &self.salt
    }
}

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MasterKey({:?})", self.profile)
    }
}
