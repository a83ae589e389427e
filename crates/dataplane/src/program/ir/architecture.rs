//! An architecture as data: which metadata it and its programs say to each other, by which name and
//! width, who writes them when, in which order its blocks run, and what a control's end comes to.
//! [`V1MODEL`] is the one that there is; `docs/architectures.md` says what others would add.
//!
//! What a field is for has one name here, whatever a program calls it: a [`Meaning`]. The loader finds
//! the fields, an engine gives or reads the meanings.

use super::metadata::{
    Meaning::{
        self, ChecksumError, DeqDepth, DeqTimedelta, EgressPort, EgressSpec, EgressTimestamp,
        EnqDepth, EnqTimestamp, IngressPort, IngressTimestamp, Instance, InstanceType,
        MulticastGroup, PacketLength, ParserError, Priority, Queue, TimeInside,
    },
    Moment,
};
use crate::limits;

/// A part of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// Headers out of the frame.
    Parser,
    /// Whether the checksums are right.
    VerifyChecksum,
    /// The first control.
    Ingress,
    /// Queues and copies. The same for every architecture.
    TrafficManager,
    /// The second control.
    Egress,
    /// Checksums anew.
    ComputeChecksum,
    /// Headers into the frame.
    Deparser,
}

/// A field that architecture and program share.
#[derive(Debug, Clone, Copy)]
pub struct Intrinsic {
    /// What it is for.
    pub meaning: Meaning,
    /// `header.field` or an alias; the first that a program has.
    pub names: &'static [&'static str],
    /// Bits at least.
    pub bits_min: u32,
    /// A program without it is not loaded; else it is not written.
    pub is_required: bool,
    /// When the target writes it. Without a moment, the target only reads it.
    pub written: &'static [Moment],
    /// Fields without which this one is not there.
    pub needs: &'static [Meaning],
}

/// What decides how a control ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// A primitive has asked for it.
    Asked,
    /// A field has this value.
    Is(Meaning, u64),
    /// A field is there and not 0.
    IsNot0(Meaning),
    /// What is left.
    Otherwise,
}

/// How a control may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// To the port in [`Meaning::EgressSpec`], or out of the port that it goes to.
    Send,
    /// To the replicas of the group in [`Meaning::MulticastGroup`].
    Multicast,
    /// To the first control again: as it came, or as it would have left.
    Again,
    /// Nowhere.
    Drop,
}

/// An architecture.
#[derive(Debug)]
pub struct Architecture {
    /// As its P4 file is called.
    pub name: &'static str,
    /// In the order in which a packet meets them.
    pub blocks: &'static [Block],
    /// In the order in which they are written at a moment.
    pub metadata: &'static [Intrinsic],
    /// How the first control ends: the first rule that holds.
    pub ingress_verdicts: &'static [(When, Verdict)],
    /// How the second one ends.
    pub egress_verdicts: &'static [(When, Verdict)],
    /// The output port that `mark_to_drop` writes.
    pub drop_port: u16,
    /// Nanoseconds of a unit of its timestamps.
    pub timestamp_ns: u64,
}

const QUEUEING: &[Meaning] = &[EnqTimestamp, EnqDepth, DeqTimedelta, DeqDepth];

impl Intrinsic {
    /// A field that the target reads, if it is there.
    pub const fn read(meaning: Meaning, names: &'static [&'static str]) -> Self {
        Self {
            meaning,
            names,
            bits_min: 0,
            is_required: false,
            written: &[],
            needs: &[],
        }
    }

    /// Written at these moments.
    pub const fn at(self, written: &'static [Moment]) -> Self {
        Self { written, ..self }
    }

    /// Required, with so many bits at least.
    pub const fn required(self, bits_min: u32) -> Self {
        Self {
            bits_min,
            is_required: true,
            ..self
        }
    }

    const fn with(self, needs: &'static [Meaning]) -> Self {
        Self { needs, ..self }
    }
}

/// A field that simple_switch finds in a header of its own, and v1model.p4 in `standard_metadata`.
macro_rules! field {
    ($meaning:ident, $header:literal, $name:literal) => {
        Intrinsic::read(
            $meaning,
            &[
                concat!($header, ".", $name),
                concat!("standard_metadata.", $name),
            ],
        )
    };
}

/// A field of the intrinsic metadata.
macro_rules! intrinsic {
    ($meaning:ident, $name:literal) => {
        field!($meaning, "intrinsic_metadata", $name)
    };
}

/// A field of the queues; all or none of them.
macro_rules! queueing {
    ($meaning:ident, $name:literal) => {
        field!($meaning, "queueing_metadata", $name)
            .at(&[Moment::Egress])
            .with(QUEUEING)
    };
}

/// v1model as BMv2's `simple_switch` has it. Its names are those that `simple_switch` looks for, which
/// v1model.p4 gives as aliases.
pub static V1MODEL: Architecture = Architecture {
    name: "v1model",
    blocks: &[
        Block::Parser,
        Block::VerifyChecksum,
        Block::Ingress,
        Block::TrafficManager,
        Block::Egress,
        Block::ComputeChecksum,
        Block::Deparser,
    ],
    metadata: &[
        Intrinsic::read(IngressPort, &["standard_metadata.ingress_port"])
            .required(9)
            .at(&[Moment::Arrival]),
        intrinsic!(IngressTimestamp, "ingress_global_timestamp").at(&[Moment::Arrival]),
        intrinsic!(Instance, "egress_rid").at(&[Moment::Egress]),
        Intrinsic::read(InstanceType, &["standard_metadata.instance_type"])
            .required(3)
            .at(&[Moment::Parser, Moment::Egress]),
        intrinsic!(EgressTimestamp, "egress_global_timestamp").at(&[Moment::Egress]),
        intrinsic!(TimeInside, "nanoseconds_inside").at(&[Moment::Egress]),
        queueing!(EnqTimestamp, "enq_timestamp"),
        queueing!(EnqDepth, "enq_qdepth"),
        queueing!(DeqTimedelta, "deq_timedelta"),
        queueing!(DeqDepth, "deq_qdepth"),
        queueing!(Queue, "qid"),
        Intrinsic::read(EgressPort, &["standard_metadata.egress_port"])
            .required(9)
            .at(&[Moment::Egress]),
        Intrinsic::read(EgressSpec, &["standard_metadata.egress_spec"])
            .required(9)
            .at(&[Moment::Egress]),
        Intrinsic::read(PacketLength, &["standard_metadata.packet_length"])
            .required(1)
            .at(&[Moment::Parser, Moment::Egress]),
        Intrinsic::read(ParserError, &["standard_metadata.parser_error"]).at(&[Moment::Parsed]),
        Intrinsic::read(ChecksumError, &["standard_metadata.checksum_error"]).at(&[Moment::Parsed]),
        intrinsic!(MulticastGroup, "mcast_grp"),
        intrinsic!(Priority, "priority"),
    ],
    ingress_verdicts: &[
        (When::Asked, Verdict::Again),
        (When::IsNot0(MulticastGroup), Verdict::Multicast),
        (
            When::Is(EgressSpec, limits::DROP_PORT as u64),
            Verdict::Drop,
        ),
        (When::Otherwise, Verdict::Send),
    ],
    egress_verdicts: &[
        (
            When::Is(EgressSpec, limits::DROP_PORT as u64),
            Verdict::Drop,
        ),
        (When::Asked, Verdict::Again),
        (When::Otherwise, Verdict::Send),
    ],
    drop_port: limits::DROP_PORT,
    timestamp_ns: 1_000,
};

impl Default for &Architecture {
    fn default() -> Self {
        &V1MODEL
    }
}
