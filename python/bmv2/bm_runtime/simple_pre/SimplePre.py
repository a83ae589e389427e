"""The calls of `simple_pre`."""

from reprise_thrift import client_class

from .ttypes import TYPES

# The types are also names of this module, as in modules from Thrift's compiler, for example
# `SimplePre.InvalidMcOperation`.
globals().update(TYPES)
Client = client_class(
    """
i32 bm_mc_mgrp_create cxt_id:i32 mgrp:i32 !InvalidMcOperation
void bm_mc_mgrp_destroy cxt_id:i32 mgrp_handle:i32 !InvalidMcOperation
i32 bm_mc_node_create cxt_id:i32 rid:i32 port_map:string !InvalidMcOperation
void bm_mc_node_associate cxt_id:i32 mgrp_handle:i32 l1_handle:i32 !InvalidMcOperation
void bm_mc_node_dissociate cxt_id:i32 mgrp_handle:i32 l1_handle:i32 !InvalidMcOperation
void bm_mc_node_destroy cxt_id:i32 l1_handle:i32 !InvalidMcOperation
void bm_mc_node_update cxt_id:i32 l1_handle:i32 port_map:string !InvalidMcOperation
string bm_mc_get_entries cxt_id:i32 !InvalidMcOperation
""",
    TYPES,
)
