//! Refused packets and the reasons.

/// How many packets were refused, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refused {
    /// Not a packet of the sequencer, or not of the group's variant.
    pub malformed: u64,
    /// A packet of another group.
    pub other_group: u64,
    /// A packet of another epoch.
    pub other_epoch: u64,
    /// A shard that the group does not have.
    pub wrong_shard: u64,
    /// The number 0.
    pub no_number: u64,
    /// The digest is not the message's.
    pub wrong_digest: u64,
    /// This receiver's tag, or the signature, is wrong.
    pub forged: u64,
    /// Its link does not fit the predecessor or the successor.
    pub broken_link: u64,
    /// A number that is delivered or given up, or a repeated packet.
    pub replayed: u64,
    /// An unverified packet whose number is beyond the window.
    pub beyond_window: u64,
    /// The number, or its shard, has too many contents already.
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
