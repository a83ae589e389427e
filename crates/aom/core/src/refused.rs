//! Counters of refused packets.

/// Counts refused packets by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refused {
    /// The datagram is not a packet of the sequencer, or it is not of the group's variant (AOM-HM or AOM-PK).
    pub malformed: u64,
    /// The packet belongs to another group.
    pub other_group: u64,
    /// The packet belongs to another epoch.
    pub other_epoch: u64,
    /// AOM-HM: the group has no shard (four receivers) of this number. AOM-PK: the shard is not 0.
    pub wrong_shard: u64,
    /// The sequence number is 0.
    pub no_number: u64,
    /// The digest in the header is not the digest of the message.
    pub wrong_digest: u64,
    /// This receiver's tag, or the signature, is wrong.
    pub forged: u64,
    /// AOM-PK: the packet does not fit into the hash chain, as a later packet's link or the epoch's start proves.
    pub broken_link: u64,
    /// The sequence number is settled already (delivered or dropped), or the packet is a repetition.
    pub replayed: u64,
    /// Nothing proves yet that the sequencer sent the packet, and its number is beyond the window.
    pub beyond_window: u64,
    /// The limit of unverified packets is reached: either their number for one sequence number (in AOM-HM for one
    /// sequence number and shard), or the sum of their bytes.
    pub too_many: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Refusal {
    Malformed,
    OtherGroup,
    OtherEpoch,
    WrongShard,
    NoNumber,
    WrongDigest,
    Forged,
    BrokenLink,
    Replayed,
    BeyondWindow,
    TooMany,
}

impl Refused {
    pub(crate) fn count(&mut self, refusal: Refusal) {
        *match refusal {
            Refusal::Malformed => &mut self.malformed,
            Refusal::OtherGroup => &mut self.other_group,
            Refusal::OtherEpoch => &mut self.other_epoch,
            Refusal::WrongShard => &mut self.wrong_shard,
            Refusal::NoNumber => &mut self.no_number,
            Refusal::WrongDigest => &mut self.wrong_digest,
            Refusal::Forged => &mut self.forged,
            Refusal::BrokenLink => &mut self.broken_link,
            Refusal::Replayed => &mut self.replayed,
            Refusal::BeyondWindow => &mut self.beyond_window,
            Refusal::TooMany => &mut self.too_many,
        } += 1;
    }
}
