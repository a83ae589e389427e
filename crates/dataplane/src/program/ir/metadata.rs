//! What the fields that an architecture and its programs share are for, and where a program has them.

use super::id::FieldId;

/// When the target writes a field. The same field may be written several times in a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before the parser, of a frame that came in; not when it comes again.
    Arrival,
    /// Before the parser.
    Parser,
    /// After parser and checksum verification.
    Parsed,
    /// Before the second control.
    Egress,
}

impl Moment {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Arrival, Self::Parser, Self::Parsed, Self::Egress];
}

macro_rules! meanings {
    (required { $($(#[$doc:meta])* $meaning:ident $field:ident,)* }
     optional { $($(#[$doc_o:meta])* $meaning_o:ident $field_o:ident,)* }) => {
        /// What a field that architecture and program share is for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Meaning {
            $($(#[$doc])* $meaning,)*
            $($(#[$doc_o])* $meaning_o,)*
        }

        /// Where these fields are in a program; those that it leaves out are not written.
        #[derive(Debug, Clone, Default)]
        pub struct StandardMetadata {
            $($(#[$doc])* pub $field: FieldId,)*
            $($(#[$doc_o])* pub $field_o: Option<FieldId>,)*
            /// By [`Moment`].
            written: [Vec<(Meaning, FieldId)>; Moment::ALL.len()],
        }

        impl StandardMetadata {
            /// The fields of all meanings; of those without which no program is loaded, whatever stands
            /// in place of a missing one.
            pub(crate) fn of(find: impl Fn(Meaning) -> Option<FieldId>) -> Self {
                Self {
                    $($field: find(Meaning::$meaning).unwrap_or_default(),)*
                    $($field_o: find(Meaning::$meaning_o),)*
                    written: Default::default(),
                }
            }

            /// The field of a meaning, where the program has one.
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
        /// Where the root frame came in.
        IngressPort ingress_port,
        /// Where the first control sends the packet.
        EgressSpec egress_spec,
        /// Where it goes, in the second control.
        EgressPort egress_port,
        /// How it came to be.
        InstanceType instance_type,
        /// Bytes.
        PacketLength packet_length,
    }
    optional {
        /// When the frame came.
        IngressTimestamp ingress_global_timestamp,
        /// When the second control began.
        EgressTimestamp egress_global_timestamp,
        /// How long the packet has been inside when the second control begins, in nanoseconds: its root
        /// frame's arrival and now. A field of this switch's own, that a program asks for.
        TimeInside nanoseconds_inside,
        /// The multicast group; 0 is none.
        MulticastGroup mcast_grp,
        /// The instance of a copy.
        Instance egress_rid,
        /// The number of the parser's error.
        ParserError parser_error,
        /// 1 where a checksum was wrong.
        ChecksumError checksum_error,
        /// The queue that the packet goes to.
        Priority priority,
        /// The queue that it came through.
        Queue qid,
        /// When the packet was queued.
        EnqTimestamp enq_timestamp,
        /// Packets that were in the queue before it.
        EnqDepth enq_qdepth,
        /// The time in the queue.
        DeqTimedelta deq_timedelta,
        /// Packets left in the queue when its turn came.
        DeqDepth deq_qdepth,
    }
}

/// The fields of the queues; all or none of them.
#[derive(Debug, Clone, Copy)]
pub struct Queueing {
    /// When the packet was queued.
    pub enq_timestamp: FieldId,
    /// Packets that were there before it.
    pub enq_qdepth: FieldId,
    /// The time in the queue.
    pub deq_timedelta: FieldId,
    /// Packets left there when its turn came.
    pub deq_qdepth: FieldId,
}

impl StandardMetadata {
    /// A field is written at a moment, after those that were said before.
    pub(crate) fn write_at(&mut self, moment: Moment, meaning: Meaning) {
        if let Some(field) = self.get(meaning) {
            self.written[moment as usize].push((meaning, field));
        }
    }

    /// What the target writes at a moment, in this order.
    pub fn written_at(&self, moment: Moment) -> &[(Meaning, FieldId)] {
        &self.written[moment as usize]
    }

    /// The fields of the queues.
    pub fn queueing(&self) -> Option<Queueing> {
        Some(Queueing {
            enq_timestamp: self.enq_timestamp?,
            enq_qdepth: self.enq_qdepth?,
            deq_timedelta: self.deq_timedelta?,
            deq_qdepth: self.deq_qdepth?,
        })
    }
}
