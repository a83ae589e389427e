//! The reasons for which a packet ends inside the switch. Every packet that does not leave the switch has a reason.

use std::fmt;

macro_rules! drop_reasons {
    ($($(#[$doc:meta])* $variant:ident => $name:literal,)*) => {
        /// Why a packet was dropped.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum DropReason {
            $($(#[$doc])* $variant,)*
        }

        impl DropReason {
            /// Every reason, in the order of the counters.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant,)*];

            /// The name in counters, traces and the control protocol.
            pub const fn name(self) -> &'static str {
                match self {
                    $(DropReason::$variant => $name,)*
                }
            }
        }
    };
}

drop_reasons! {
    /// No program is loaded.
    NoPipeline => "no_pipeline",
    /// The frame came from a port that the switch does not have.
    PortUnknown => "port_unknown",
    /// The port by which the frame arrived, or the port by which it was to leave, is disabled.
    PortDisabled => "port_disabled",
    /// The program was replaced while the packet was inside the switch.
    PipelineChanged => "pipeline_changed",
    /// The frame is longer than [`crate::limits::FRAME_BYTES_MAX`].
    FrameTooLong => "frame_too_long",
    /// The ingress queue was full.
    IngressQueueFull => "ingress_queue_full",
    /// The queue of recirculated and resubmitted packets was full.
    RecirculationQueueFull => "recirculation_queue_full",
    /// The queue of the output port was full.
    EgressQueueFull => "egress_queue_full",
    /// The program selected the drop port at the end of ingress.
    IngressDrop => "ingress_drop",
    /// The program selected the drop port at the end of egress.
    EgressDrop => "egress_drop",
    /// The multicast group does not exist.
    MulticastGroupUnknown => "multicast_group_unknown",
    /// The multicast group has no replica.
    MulticastGroupEmpty => "multicast_group_empty",
    /// The clone session does not exist. Only the clone is dropped.
    CloneSessionUnknown => "clone_session_unknown",
    /// The clone session has no replica. Only the clone is dropped.
    CloneSessionEmpty => "clone_session_empty",
    /// The program set a priority for which output ports have no queue.
    PriorityOutOfRange => "priority_out_of_range",
    /// Too many packet-ins wait for the control plane.
    PacketInQueueFull => "packet_in_queue_full",
    /// The packet leaves on a port that the switch does not have.
    EgressPortUnknown => "egress_port_unknown",
    /// The packet recirculated too often.
    RecirculationLimit => "recirculation_limit",
    /// The packet was resubmitted too often.
    ResubmitLimit => "resubmit_limit",
    /// In a chain of packets, each was a clone of the previous packet, and the chain became longer than
    /// [`crate::limits::CLONE_GENERATIONS_MAX`]. Only the last clone is dropped.
    CloneLimit => "clone_limit",
    /// The loops of one action ran too many rounds.
    LoopLimit => "loop_limit",
    /// An `assert` of the program did not hold.
    AssertionFailed => "assertion_failed",
    /// An `assume` of the program did not hold.
    AssumptionFailed => "assumption_failed",
    /// The offload was stopped while it held the packet.
    OffloadStopped => "offload_stopped",
    /// The output device did not accept the offload's packet: its queue was full, or it was down.
    DeviceRefused => "device_refused",
    /// The extern that changes the packet's payload failed, for example because a key is missing.
    PayloadExternFailed => "payload_extern_failed",
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
