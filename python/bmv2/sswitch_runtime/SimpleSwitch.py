"""The calls of BMv2's Thrift service `simple_switch`."""

from reprise_thrift import client_class

from .ttypes import TYPES

# The types are also names of this module, as in modules from Thrift's compiler, for example
# `SimpleSwitch.InvalidMirroringOperation`.
globals().update(TYPES)
Client = client_class(
    """
i32 mirroring_mapping_add mirror_id:i32 egress_port:i32
i32 mirroring_mapping_delete mirror_id:i32
i32 mirroring_mapping_get_egress_port mirror_id:i32
void mirroring_session_add mirror_id:i32 config:MirroringSessionConfig !InvalidMirroringOperation
void mirroring_session_delete mirror_id:i32 !InvalidMirroringOperation
MirroringSessionConfig mirroring_session_get mirror_id:i32 !InvalidMirroringOperation
i32 set_egress_priority_queue_depth port_num:i32 priority:i32 depth_pkts:i32
i32 set_egress_queue_depth port_num:i32 depth_pkts:i32
i32 set_all_egress_queue_depths depth_pkts:i32
i32 set_egress_priority_queue_rate port_num:i32 priority:i32 rate_pps:i64
i32 set_egress_queue_rate port_num:i32 rate_pps:i64
i32 set_all_egress_queue_rates rate_pps:i64
i64 get_time_elapsed_us
i64 get_time_since_epoch_us
""",
    TYPES,
)
