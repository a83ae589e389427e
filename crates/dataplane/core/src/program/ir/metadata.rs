//! The purposes of the fields that an architecture shares with its programs, and the fields that a program has for
//! these purposes.

use super::id::FieldId;

/// When the target writes a field. The target may write the same field several times in a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before the parser, for a new frame only.
    Arrival,
    /// Before the parser, in every pass.
    Parser,
    /// After parser and checksum verification.
    Parsed,
    /// Before the second control (egress).
    Egress,
}

impl Moment {
    /// Every moment.
    pub const ALL: [Self; 4] = [Self::Arrival, Self::Parser, Self::Parsed, Self::Egress];
}

macro_rules! meanings {
    (required { $($(#[$doc:meta])* $meaning:ident $field:ident,)* }
     optional { $($(#[$doc_o:meta])* $meaning_o:ident $field_o:ident,)* }) => {
        /// The purpose of a shared field.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Meaning {
            $($(#[$doc])* $meaning,)*
            $($(#[$doc_o])* $meaning_o,)*
        }

        /// The program's fields by purpose; the target skips those that the program lacks.
        #[derive(Debug, Clone, Default)]
        pub struct StandardMetadata {
            $($(#[$doc])* pub $field: FieldId,)*
            $($(#[$doc_o])* pub $field_o: Option<FieldId>,)*
            /// Indexed by [`Moment`].
            written: [Vec<(Meaning, FieldId)>; Moment::ALL.len()],
        }

        impl StandardMetadata {
            /// Looks up all fields. A missing required field gets a default; the loader refuses such a program.
            pub(crate) fn of(find: impl Fn(Meaning) -> Option<FieldId>) -> Self {
                Self {
                    $($field: find(Meaning::$meaning).unwrap_or_default(),)*
                    $($field_o: find(Meaning::$meaning_o),)*
                    written: Default::default(),
                }
            }

            /// The field with this purpose, if the program has one.
            pub fn get(&self, meaning: Meaning) -> Option<FieldId> {
                match meaning {
                    $(Meaning::$meaning => Some(self.$field),)*
                    $(Meaning::$meaning_o => self.$field_o,)*
                }
            }
        }
    };
}

meanings! {
    required {
        /// The port that received the root frame, which is the received frame that the packet comes from.
        IngressPort ingress_port,
        /// The output port chosen in the first control.
        EgressSpec egress_spec,
        /// The output port, in the second control.
        EgressPort egress_port,
        /// How the packet came to be.
        InstanceType instance_type,
        /// The packet's length in bytes.
        PacketLength packet_length,
    }
    optional {
        /// When the frame arrived.
        IngressTimestamp ingress_global_timestamp,
        /// When the second control started.
        EgressTimestamp egress_global_timestamp,
        /// Nanoseconds from the arrival of the root frame to the start of the second control. An extension of this
        /// switch, for programs that declare it.
        TimeInside nanoseconds_inside,
        /// The multicast group; 0 is none.
        MulticastGroup mcast_grp,
        /// The `egress_rid` of a copy.
        Instance egress_rid,
        /// The number of the parser error.
        ParserError parser_error,
        /// 1 if a checksum was wrong.
        ChecksumError checksum_error,
        /// The queue to use.
        Priority priority,
        /// The queue that held the packet.
        Queue qid,
        /// When the packet was queued.
        EnqTimestamp enq_timestamp,
        /// Packets in the queue when this packet was queued.
        EnqDepth enq_qdepth,
        /// The time in the queue, in the units of the timestamps.
        DeqTimedelta deq_timedelta,
        /// Packets in the queue after this packet left it.
        DeqDepth deq_qdepth,
    }
}

/// The queueing fields; a program has all of them or none.
#[derive(Debug, Clone, Copy)]
pub struct Queueing {
    /// When the packet was queued.
    pub enq_timestamp: FieldId,
    /// Packets in the queue when this packet was queued.
    pub enq_qdepth: FieldId,
    /// The time in the queue, in the units of the timestamps.
    pub deq_timedelta: FieldId,
    /// Packets in the queue after this packet left it.
    pub deq_qdepth: FieldId,
}

impl StandardMetadata {
    pub(crate) fn write_at(&mut self, moment: Moment, meaning: Meaning) {
        if let Some(field) = self.get(meaning) {
            self.written[moment as usize].push((meaning, field));
        }
    }

    /// The fields that the target writes at a moment, in the order in which it writes them.
    pub fn written_at(&self, moment: Moment) -> &[(Meaning, FieldId)] {
        &self.written[moment as usize]
    }

    /// The queueing fields, if the program has them.
    pub fn queueing(&self) -> Option<Queueing> {
        Some(Queueing {
            enq_timestamp: self.enq_timestamp?,
            enq_qdepth: self.enq_qdepth?,
            deq_timedelta: self.deq_timedelta?,
            deq_qdepth: self.deq_qdepth?,
        })
    }
}
