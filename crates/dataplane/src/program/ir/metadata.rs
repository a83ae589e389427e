//! Which fields the target reads and writes.

use std::collections::HashMap;

use crate::program::{
    LoadError,
    ir::{Field, FieldId},
};

/// Where the fields are that the target reads and writes; those that a program leaves out are
/// not written.
#[derive(Debug, Clone, Default)]
pub struct StandardMetadata {
    /// Where the root frame came in.
    pub ingress_port: FieldId,
    /// Where ingress sends the packet.
    pub egress_spec: FieldId,
    /// Where it goes, in egress.
    pub egress_port: FieldId,
    /// How it came to be.
    pub instance_type: FieldId,
    /// Bytes.
    pub packet_length: FieldId,
    /// Microseconds when the frame came.
    pub ingress_global_timestamp: Option<FieldId>,
    /// Microseconds when egress began.
    pub egress_global_timestamp: Option<FieldId>,
    /// How long the packet has been inside when egress begins, in nanoseconds: its root frame's arrival
    /// and now. A field of this switch's own, that a program asks for.
    pub nanoseconds_inside: Option<FieldId>,
    /// The multicast group; 0 is none.
    pub mcast_grp: Option<FieldId>,
    /// The instance of a copy.
    pub egress_rid: Option<FieldId>,
    /// The number of the parser's error.
    pub parser_error: Option<FieldId>,
    /// 1 where a checksum was wrong.
    pub checksum_error: Option<FieldId>,
    /// The queue that the packet goes to.
    pub priority: Option<FieldId>,
    /// The queue that it came through.
    pub qid: Option<FieldId>,
    /// The fields of the queues.
    pub queueing: Option<Queueing>,
}

/// The fields of the queues; all or none of them.
#[derive(Debug, Clone, Copy)]
pub struct Queueing {
    /// Microseconds when the packet was queued.
    pub enq_timestamp: FieldId,
    /// Packets that were there before it.
    pub enq_qdepth: FieldId,
    /// Microseconds in the queue.
    pub deq_timedelta: FieldId,
    /// Packets left there when its turn came.
    pub deq_qdepth: FieldId,
}

impl StandardMetadata {
    /// Finds the fields by the names that simple_switch uses, which v1model.p4 gives as aliases.
    pub(crate) fn resolve(
        names: &HashMap<String, FieldId>,
        fields: &[Field],
    ) -> Result<Self, LoadError> {
        let find = |header: &str, field: &str| {
            let name = |header: &str| names.get(&format!("{header}.{field}")).copied();
            name(header).or_else(|| name("standard_metadata"))
        };
        let required = |field: &str, bits: u32| {
            let place = format!("standard_metadata.{field}");
            let Some(id) = find("standard_metadata", field) else {
                return Err(LoadError {
                    place,
                    message: "the target needs this field".into(),
                });
            };
            let found = fields[id.index()].bits;
            if found < bits {
                let message = format!("expected {bits} bits at least, found {found}");
                return Err(LoadError { place, message });
            }
            Ok(id)
        };
        let queue = |field| find("queueing_metadata", field);
        let queueing = match (
            queue("enq_timestamp"),
            queue("enq_qdepth"),
            queue("deq_timedelta"),
            queue("deq_qdepth"),
        ) {
            (Some(enq_timestamp), Some(enq_qdepth), Some(deq_timedelta), Some(deq_qdepth)) => {
                Some(Queueing {
                    enq_timestamp,
                    enq_qdepth,
                    deq_timedelta,
                    deq_qdepth,
                })
            }
            _ => None,
        };
        Ok(Self {
            ingress_port: required("ingress_port", 9)?,
            egress_spec: required("egress_spec", 9)?,
            egress_port: required("egress_port", 9)?,
            instance_type: required("instance_type", 3)?,
            packet_length: required("packet_length", 1)?,
            ingress_global_timestamp: find("intrinsic_metadata", "ingress_global_timestamp"),
            egress_global_timestamp: find("intrinsic_metadata", "egress_global_timestamp"),
            nanoseconds_inside: find("intrinsic_metadata", "nanoseconds_inside"),
            mcast_grp: find("intrinsic_metadata", "mcast_grp"),
            egress_rid: find("intrinsic_metadata", "egress_rid"),
            parser_error: find("standard_metadata", "parser_error"),
            checksum_error: find("standard_metadata", "checksum_error"),
            priority: find("intrinsic_metadata", "priority"),
            qid: queue("qid"),
            queueing,
        })
    }
}
