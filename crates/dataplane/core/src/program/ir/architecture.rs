//! An architecture as data: the metadata that it shares with programs (name, width, when each is written), the order of
//! its blocks, and the verdicts after each control. [`V1MODEL`] is the only instance; `docs/architectures.md` describes
//! what other architectures need.
//!
//! A [`Meaning`] names the purpose of a field, whatever a program calls the field. The loader finds the field for each
//! meaning; engines read and write fields by meaning.

use super::metadata::{
    Meaning::{
        self, ChecksumError, DeqDepth, DeqTimedelta, EgressPort, EgressSpec, EgressTimestamp,
        EnqDepth, EnqTimestamp, IngressPort, IngressTimestamp, Instance, InstanceType,
        MulticastGroup, PacketLength, ParserError, Priority, Queue, TimeInside,
    },
    Moment,
};
use crate::limits;

/// A block of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// Extracts headers from the frame.
    Parser,
    /// Verifies checksums.
    VerifyChecksum,
    /// The first control.
    Ingress,
    /// Queues and copies; the same for every architecture.
    TrafficManager,
    /// The second control.
    Egress,
    /// Updates checksums.
    ComputeChecksum,
    /// Writes headers to the frame.
    Deparser,
}

/// A metadata field that architecture and program share.
#[derive(Debug, Clone, Copy)]
pub struct Intrinsic {
    /// The purpose of the field.
    pub meaning: Meaning,
    /// Possible names, as `header.field` or an alias; the first name that the program has is used.
    pub names: &'static [&'static str],
    /// Minimum width.
    pub bits_min: u32,
    /// Whether the loader refuses a program without the field. If not, the target skips a missing field.
    pub is_required: bool,
    /// When the target writes the field; empty if it only reads the field.
    pub written: &'static [Moment],
    /// Other fields that the program must have. If one of them is missing, this field is ignored.
    pub needs: &'static [Meaning],
}

/// The condition under which a [`Verdict`] applies to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// A primitive asked for the verdict.
    Asked,
    /// A field has this value.
    Is(Meaning, u64),
    /// A field exists and is not 0.
    IsNot0(Meaning),
    /// Always.
    Otherwise,
}

/// What happens to a packet after a control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// After ingress, goes to the port in [`Meaning::EgressSpec`]; after egress, leaves.
    Send,
    /// Is replicated to the group in [`Meaning::MulticastGroup`].
    Multicast,
    /// Returns to the first control: unchanged after ingress, deparsed after egress.
    Again,
    /// Is dropped.
    Drop,
}

/// A P4 architecture: its blocks, the metadata that it shares with programs, and what happens to a packet after a
/// control.
#[derive(Debug)]
pub struct Architecture {
    /// The name of its P4 file, without extension.
    pub name: &'static str,
    /// The blocks, in the order of the pipeline.
    pub blocks: &'static [Block],
    /// The shared fields. The target writes the fields of the same `Moment` in this order.
    pub metadata: &'static [Intrinsic],
    /// Verdicts after the first control; the first rule that holds applies.
    pub ingress_verdicts: &'static [(When, Verdict)],
    /// Verdicts after the second control; the first rule that holds applies.
    pub egress_verdicts: &'static [(When, Verdict)],
    /// The output port that `mark_to_drop` writes.
    pub drop_port: u16,
    /// Nanoseconds per unit of its timestamps.
    pub timestamp_ns: u64,
}

const QUEUEING: &[Meaning] = &[EnqTimestamp, EnqDepth, DeqTimedelta, DeqDepth];

impl Intrinsic {
    /// Makes an optional field that the target only reads.
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

    /// Adds the moments at which the target writes the field.
    pub const fn at(self, written: &'static [Moment]) -> Self {
        Self { written, ..self }
    }

    /// Makes the field required, with a minimum width.
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

/// A field that v1model.p4 has in `standard_metadata`, and that simple_switch looks for in the header `$header` first.
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

macro_rules! intrinsic {
    ($meaning:ident, $name:literal) => {
        field!($meaning, "intrinsic_metadata", $name)
    };
}

/// A queueing field, which is ignored unless the program has all queueing fields.
macro_rules! queueing {
    ($meaning:ident, $name:literal) => {
        field!($meaning, "queueing_metadata", $name)
            .at(&[Moment::Egress])
            .with(QUEUEING)
    };
}

/// v1model as BMv2's `simple_switch` implements it. The names are those that `simple_switch` looks for, which
/// v1model.p4 declares as aliases.
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
