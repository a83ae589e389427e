//! The hash and checksum algorithms of v1model's `HashAlgorithm`.

/// An algorithm over a byte string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// The Internet checksum (RFC 1071).
    Csum16,
    /// XOR of 2-byte words.
    Xor16,
    /// XOR of 4-byte words.
    Xor32,
    /// CRC-8 with configurable parameters.
    Crc8Custom,
    /// CRC-16/ARC.
    Crc16,
    /// CRC-16 with configurable parameters.
    Crc16Custom,
    /// CRC-16/IBM-3740, also called CRC-16/CCITT-FALSE.
    CrcCcitt,
    /// CRC-32/ISO-HDLC.
    Crc32,
    /// CRC-32 with configurable parameters.
    Crc32Custom,
    /// CRC-64 with configurable parameters.
    Crc64Custom,
    /// The first 8 bytes as a big-endian number.
    Identity,
    /// XXH64 with seed 0.
    Xxh64,
    /// BMv2's `hash_ex`: FNV-1a over signed bytes, with a final mix.
    HashEx,
    /// A random number; ignores the bytes.
    Random,
}

impl Algorithm {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "csum16" | "cksum16" => Self::Csum16,
            "xor16" => Self::Xor16,
            "xor32" => Self::Xor32,
            "crc8_custom" => Self::Crc8Custom,
            "crc16" => Self::Crc16,
            "crc16_custom" => Self::Crc16Custom,
            "crcCCITT" => Self::CrcCcitt,
            "crc32" => Self::Crc32,
            "crc32_custom" => Self::Crc32Custom,
            "crc64_custom" => Self::Crc64Custom,
            "identity" => Self::Identity,
            "xxh64" | "bmv2_hash" => Self::Xxh64,
            "hash_ex" => Self::HashEx,
            "random" => Self::Random,
            _ => return None,
        })
    }
}
