//! Derives session keys from a master key (RFC 3711, section 4.3; with AES-256 RFC 6188, section 3). The key derivation
//! rate is 0, as DTLS-SRTP has it: keys are derived once.

use aes::cipher::{KeyIvInit as _, StreamCipher as _};
use aes::{Aes128, Aes256};
use ctr::Ctr128BE;
use zeroize::Zeroizing;

use crate::profile::MasterKey;

/// What a derived key is for (RFC 3711, sections 4.3.1 and 4.3.2).
#[derive(Clone, Copy)]
pub enum Label {
    RtpEncryption = 0,
    RtpAuthentication = 1,
    RtpSalt = 2,
    RtcpEncryption = 3,
    RtcpAuthentication = 4,
    RtcpSalt = 5,
}

/// Derives a key of `n_bytes`.
pub fn derive(master: &MasterKey, label: Label, n_bytes: usize) -> Zeroizing<Vec<u8>> {
    // The label is shifted to the left of the 48 bits of an index, which is 0.
    let mut block = Zeroizing::new([0; 16]);
    block[..14].copy_from_slice(master.salt());
    block[7] ^= label as u8;
    let mut key = Zeroizing::new(vec![0; n_bytes]);
    // Both slices have a length that the cipher takes: a block has 16 bytes, and a key those of its profile.
    if master.key().len() == 16 {
        let cipher = Ctr128BE::<Aes128>::new_from_slices(master.key(), block.as_slice());
        cipher
            .unwrap_or_else(|_| unreachable!())
            .apply_keystream(&mut key);
    } else {
        let cipher = Ctr128BE::<Aes256>::new_from_slices(master.key(), block.as_slice());
        cipher
            .unwrap_or_else(|_| unreachable!())
            .apply_keystream(&mut key);
    }
    key
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXUPPER;

    use super::*;
    use crate::profile::Profile;

    #[test]
    fn session_keys_are_those_of_rfc_3711_appendix_b_3() {
        let hex = |text: &str| HEXUPPER.decode(text.as_bytes()).unwrap();
        let master = MasterKey::new(
            Profile::AesCm128HmacSha1_80,
            &hex("E1F97A0D3E018BE0D64FA32C06DE4139"),
            &hex("0EC675AD498AFEEBB6960B3AABE6"),
        )
        .unwrap();
        for (label, expected) in [
            (Label::RtpEncryption, "C61E7A93744F39EE10734AFE3FF7A087"),
            (Label::RtpSalt, "30CBBC08863D8C85D49DB34A9AE1"),
            (
                Label::RtpAuthentication,
                "CEBE321F6FF7716B6FD4AB49AF256A156D38BAA48F0A0ACF3C34E2359E6CDBCEE049646C43D9327AD175578EF72270986371C10C9A369AC2F94A8C5FBCDDDC256D6E919A48B610EF17C2041E474035766B68642C59BBFC2F34DB60DBDFB2DC68",
            ),
        ] {
            let expected = hex(expected);
            assert_eq!(*derive(&master, label, expected.len()), expected);
        }
    }
}
