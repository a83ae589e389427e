//! Encrypts and authenticates packets by the session keys of a profile.
//!
//! A protected packet is, in this order (RFC 3711, sections 3.1 and 3.4; RFC 7714, sections 8 and 9):
//!
//! | | header | payload | tag | index of SRTCP | tag |
//! |---|---|---|---|---|---|
//! | AES-GCM | clear | encrypted | 16 bytes | 4 bytes in SRTCP | |
//! | AES-CM, HMAC-SHA1-80 | clear | encrypted | | 4 bytes in SRTCP | 10 bytes |

use aes::Aes128;
use aes::cipher::{KeyIvInit as _, StreamCipher as _};
use ctr::Ctr128BE;
use hmac::{Hmac, Mac as _};
use ring::aead;
use secret_memory::Overwritten;
use sha1::Sha1;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::derive::{Label, derive};
use crate::packet::RTCP_INDEX_BYTES;
use crate::profile::{MasterKey, Profile};

/// The bit of SRTCP's index that says that the packet is encrypted (RFC 3711, section 3.4).
const ENCRYPTED: u32 = 1 << 31;
const HMAC_KEY_BYTES: usize = 20;

/// A packet was not protected with this key, or was changed since.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forged;

/// Whether a cipher is for RTP or for RTCP, which have session keys of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Rtp,
    Rtcp,
}

/// The session keys of one direction for RTP or RTCP.
pub struct Cipher {
    kind: Kind,
    tag_bytes: usize,
    keys: Keys,
}

enum Keys {
    Gcm {
        key: Overwritten<aead::LessSafeKey>,
        salt: Zeroizing<[u8; 12]>,
    },
    Cm {
        key: Zeroizing<[u8; 16]>,
        salt: Zeroizing<[u8; 14]>,
        hmac: Overwritten<Hmac<Sha1>>,
    },
}

impl Cipher {
    pub fn new(master: &MasterKey, kind: Kind) -> Cipher {
        let [encryption, authentication, salt] = match kind {
            Kind::Rtp => [
                Label::RtpEncryption,
                Label::RtpAuthentication,
                Label::RtpSalt,
            ],
            Kind::Rtcp => [
                Label::RtcpEncryption,
                Label::RtcpAuthentication,
                Label::RtcpSalt,
            ],
        };
        let profile = master.profile();
        let key = derive(master, encryption, profile.key_bytes());
        let derived = derive(master, salt, profile.salt_bytes());
        let keys = match profile {
            Profile::AesCm128HmacSha1_80 => {
                let hmac_key = derive(master, authentication, HMAC_KEY_BYTES);
                Keys::Cm {
                    key: array(&key),
                    salt: array(&derived),
                    hmac: Overwritten::new(
                        // HMAC takes keys of any length.
                        Hmac::new_from_slice(&hmac_key).unwrap_or_else(|_| unreachable!()),
                    ),
                }
            }
            Profile::AeadAes128Gcm => gcm(&aead::AES_128_GCM, &key, &derived),
            Profile::AeadAes256Gcm => gcm(&aead::AES_256_GCM, &key, &derived),
        };
        Cipher {
            kind,
            tag_bytes: profile.tag_bytes(),
            keys,
        }
    }

    /// By how many bytes a protected packet is longer.
    pub fn growth_bytes(&self) -> usize {
        match self.kind {
            Kind::Rtp => self.tag_bytes,
            Kind::Rtcp => self.tag_bytes + RTCP_INDEX_BYTES,
        }
    }

    /// Protects a packet. `room` has the packet in its first bytes, of which `n_header_bytes` stay in clear, and then
    /// room for [`Cipher::growth_bytes`]. The caller never gives the same index and SSRC twice.
    pub fn protect(&self, room: &mut [u8], n_header_bytes: usize, ssrc: u32, index: u64) {
        let n_bytes = room.len() - self.growth_bytes();
        let word = (index as u32 | ENCRYPTED).to_be_bytes();
        match &self.keys {
            Keys::Gcm { key, salt } => {
                let (packet, rest) = room.split_at_mut(n_bytes);
                let (header, payload) = packet.split_at_mut(n_header_bytes);
                let nonce = nonce(salt, ssrc, index);
                let sealed = match self.kind {
                    Kind::Rtp => {
                        key.seal_in_place_separate_tag(nonce, aead::Aad::from(&*header), payload)
                    }
                    Kind::Rtcp => {
                        let aad = rtcp_aad(header, word);
                        key.seal_in_place_separate_tag(nonce, aead::Aad::from(aad), payload)
                    }
                };
                // AES-GCM refuses only payloads of 64 GiB and more.
                let tag = sealed.unwrap_or_else(|_| unreachable!());
                let (to, index) = rest.split_at_mut(self.tag_bytes);
                to.copy_from_slice(tag.as_ref());
                index.copy_from_slice(&word[..index.len()]);
            }
            Keys::Cm { key, salt, hmac } => {
                encrypt(key, salt, ssrc, index, &mut room[n_header_bytes..n_bytes]);
                let n_clear = room.len() - self.tag_bytes;
                if self.kind == Kind::Rtcp {
                    room[n_bytes..n_clear].copy_from_slice(&word);
                }
                let tag = self.tag(hmac, &room[..n_clear], index);
                room[n_clear..].copy_from_slice(&tag[..self.tag_bytes]);
            }
        }
    }

    /// Checks a protected packet and decrypts it in place; returns the length of the packet. A forged packet's bytes
    /// are worthless afterwards.
    pub fn unprotect(
        &self,
        protected: &mut [u8],
        n_header_bytes: usize,
        ssrc: u32,
        index: u64,
    ) -> Result<usize, Forged> {
        let n_bytes = protected.len().checked_sub(self.growth_bytes());
        let n_bytes = n_bytes.filter(|it| *it >= n_header_bytes).ok_or(Forged)?;
        match &self.keys {
            Keys::Gcm { key, salt } => {
                let nonce = nonce(salt, ssrc, index);
                let (header, rest) = protected.split_at_mut(n_header_bytes);
                let (sealed, word) = rest.split_at_mut(n_bytes - n_header_bytes + self.tag_bytes);
                let opened = match self.kind {
                    Kind::Rtp => key.open_in_place(nonce, aead::Aad::from(&*header), sealed),
                    Kind::Rtcp => {
                        let word = word.try_into().unwrap_or_else(|_| unreachable!());
                        let aad = rtcp_aad(header, word);
                        key.open_in_place(nonce, aead::Aad::from(aad), sealed)
                    }
                };
                opened.map_err(|_| Forged)?;
            }
            Keys::Cm { key, salt, hmac } => {
                let n_clear = protected.len() - self.tag_bytes;
                let (clear, tag) = protected.split_at_mut(n_clear);
                let expected = self.tag(hmac, clear, index);
                if !bool::from(expected[..self.tag_bytes].ct_eq(tag)) {
                    return Err(Forged);
                }
                encrypt(key, salt, ssrc, index, &mut clear[n_header_bytes..n_bytes]);
            }
        }
        Ok(n_bytes)
    }

    /// Reads the index of a protected RTCP packet. `None`: the packet is too short, or is not encrypted.
    pub fn rtcp_index(&self, protected: &[u8]) -> Option<u32> {
        let n_after = match self.keys {
            Keys::Gcm { .. } => 0,
            Keys::Cm { .. } => self.tag_bytes,
        };
        let end = protected.len().checked_sub(n_after)?;
        let word: &[u8; RTCP_INDEX_BYTES] = protected[..end].last_chunk()?;
        let word = u32::from_be_bytes(*word);
        (word & ENCRYPTED != 0).then_some(word & !ENCRYPTED)
    }

    /// RFC 3711, section 4.2: the tag of SRTP also covers the roll-over counter, which the packet does not contain.
    fn tag(&self, hmac: &Hmac<Sha1>, clear: &[u8], index: u64) -> [u8; 20] {
        let mut hmac = (*hmac).clone();
        hmac.update(clear);
        if self.kind == Kind::Rtp {
            hmac.update(&((index >> 16) as u32).to_be_bytes());
        }
        hmac.finalize().into_bytes().into()
    }
}

/// RFC 7714, section 9.2: RTCP's first eight bytes, then the word with the index.
fn rtcp_aad(header: &[u8], word: [u8; 4]) -> [u8; 12] {
    let mut aad = [0; 12];
    aad[..8].copy_from_slice(header);
    aad[8..].copy_from_slice(&word);
    aad
}

/// RFC 7714, sections 8.1 and 9.1.
fn nonce(salt: &[u8; 12], ssrc: u32, index: u64) -> aead::Nonce {
    let mut nonce = *salt;
    xor_packet(&mut nonce[2..], ssrc, index);
    aead::Nonce::assume_unique_for_key(nonce)
}

/// Adds what differs from packet to packet to a salt: the SSRC, and the 48 bits of the index (roll-over counter and
/// sequence number, or two bytes of zeros and the index of SRTCP).
fn xor_packet(to: &mut [u8], ssrc: u32, index: u64) {
    let from = ssrc.to_be_bytes().into_iter();
    let from = from.chain(index.to_be_bytes().into_iter().skip(2));
    to.iter_mut().zip(from).for_each(|(to, from)| *to ^= from);
}

/// RFC 3711, section 4.1.1. The same operation decrypts.
fn encrypt(key: &[u8; 16], salt: &[u8; 14], ssrc: u32, index: u64, payload: &mut [u8]) {
    let mut counter = [0; 16];
    counter[..14].copy_from_slice(salt);
    xor_packet(&mut counter[4..], ssrc, index);
    Ctr128BE::<Aes128>::new(key.into(), &counter.into()).apply_keystream(payload);
}

fn gcm(algorithm: &'static aead::Algorithm, key: &[u8], salt: &[u8]) -> Keys {
    // The key has the algorithm's length.
    let key = aead::UnboundKey::new(algorithm, key).unwrap_or_else(|_| unreachable!());
    Keys::Gcm {
        key: Overwritten::new(aead::LessSafeKey::new(key)),
        salt: array(salt),
    }
}

fn array<const N: usize>(bytes: &[u8]) -> Zeroizing<[u8; N]> {
    // The caller derives a key of just this length.
    Zeroizing::new(bytes.try_into().unwrap_or_else(|_| unreachable!()))
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;

    use super::*;
    use crate::packet::{RTCP_HEADER_BYTES, RtpHeader};

    fn hex(text: &str) -> Vec<u8> {
        HEXLOWER.decode(text.replace(' ', "").as_bytes()).unwrap()
    }

    /// A cipher with the session key and salt of RFC 7714, sections 16 and 17: bytes 0, 1, 2 and on, and `Quid pro quo`.
    fn of_rfc_7714(algorithm: &'static aead::Algorithm, kind: Kind) -> Cipher {
        let key: Vec<u8> = (0..32).collect();
        Cipher {
            kind,
            tag_bytes: 16,
            keys: gcm(algorithm, &key[..algorithm.key_len()], b"Quid pro quo"),
        }
    }

    #[test]
    fn rtp_packets_are_those_of_rfc_7714_section_16() {
        let clear = hex(
            "8040f17b 8041f8d3 5501a0b2 47616c6c 69612065 7374206f 6d6e6973 20646976 69736120 \
             696e2070 61727465 73207472 6573",
        );
        for (algorithm, expected) in [
            (
                &aead::AES_128_GCM,
                "8040f17b 8041f8d3 5501a0b2 f24de3a3 fb34de6c acba861c 9d7e4bca be633bd5 0d294e6f \
                 42a5f47a 51c7d19b 36de3adf 8833899d 7f27beb1 6a9152cf 765ee439 0cce",
            ),
            (
                &aead::AES_256_GCM,
                "8040f17b 8041f8d3 5501a0b2 32b1de78 a822fe12 ef9f78fa 332e33aa b1801238 9a58e2f3 \
                 b50b2a02 76ffae0f 1ba63799 b87b7aa3 db36dfff d6b0f9bb 7878d7a7 6c13",
            ),
        ] {
            let cipher = of_rfc_7714(algorithm, Kind::Rtp);
            let header = RtpHeader::read(&clear).unwrap();
            let index = u64::from(header.sequence);
            let mut room = clear.clone();
            room.resize(clear.len() + cipher.growth_bytes(), 0);
            cipher.protect(&mut room, header.n_bytes, header.ssrc, index);
            assert_eq!(room, hex(expected));
            let n_bytes = cipher.unprotect(&mut room, header.n_bytes, header.ssrc, index);
            assert_eq!(&room[..n_bytes.unwrap()], clear);
        }
    }

    #[test]
    fn rtcp_packets_are_those_of_rfc_7714_section_17() {
        let clear = hex(
            "81c8000d 4d617273 4e545031 4e545032 52545020 0000042a 0000e930 4c756e61 deadbeef \
             deadbeef deadbeef deadbeef deadbeef",
        );
        for (algorithm, expected) in [
            (
                &aead::AES_128_GCM,
                "81c8000d 4d617273 63e94885 dcdab67c a727d766 2f6b7e99 7ff5c0f7 6c06f32d c676a5f1 \
                 730d6fda 4ce09b46 86303ded 0bb9275b c84aa458 96cf4d2f c5abf872 45d9eade 800005d4",
            ),
            (
                &aead::AES_256_GCM,
                "81c8000d 4d617273 d50ae4d1 f5ce5d30 4ba297e4 7d470c28 2c3ece5d bffe0a50 a2eaa5c1 \
                 110555be 8415f658 c61de047 6f1b6fad 1d1eb30c 4446839f 57ff6f6c b26ac3be 800005d4",
            ),
        ] {
            let cipher = of_rfc_7714(algorithm, Kind::Rtcp);
            let (ssrc, index) = (0x4d61_7273, 0x5d4);
            let mut room = clear.clone();
            room.resize(clear.len() + cipher.growth_bytes(), 0);
            cipher.protect(&mut room, RTCP_HEADER_BYTES, ssrc, index);
            assert_eq!(room, hex(expected));
            assert_eq!(cipher.rtcp_index(&room), Some(0x5d4));
            let n_bytes = cipher.unprotect(&mut room, RTCP_HEADER_BYTES, ssrc, index);
            assert_eq!(&room[..n_bytes.unwrap()], clear);
        }
    }
}
