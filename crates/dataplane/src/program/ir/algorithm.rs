//! Hash and checksum algorithms of v1model's `HashAlgorithm`, by name.

/// An algorithm over bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// The Internet checksum (RFC 1071).
    Csum16,
    /// Exclusive or of the words of 2 bytes.
    Xor16,
    /// Exclusive or of the words of 4 bytes.
    Xor32,
    /// CRC-8, with parameters that may be chosen.
    Crc8Custom,
    /// CRC-16/ARC.
    Crc16,
    /// CRC-16, with parameters that may be chosen.
    Crc16Custom,
    /// CRC-16/CCITT.
    CrcCcitt,
    /// CRC-32/ISO-HDLC.
    Crc32,
    /// CRC-32, with parameters that may be chosen.
    Crc32Custom,
    /// CRC-64, with parameters that may be chosen.
    Crc64Custom,
    /// The first 8 bytes as a number.
    Identity,
    /// XXH64.
    Xxh64,
    /// FNV-1a with a final mix, as BMv2's tests use it.
    HashEx,
    /// A number that has nothing to do with the bytes.
    Random,
}

impl Algorithm {
    /// The algorithm of a name as BMv2 JSON writes it.
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
