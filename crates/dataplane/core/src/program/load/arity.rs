//! The architecture's primitives, and how many parameters each may have.

pub(crate) fn is_primitive(op: &str) -> bool {
    arities(op).is_some()
}

/// The allowed parameter counts of a primitive; `None` if it does not exist.
pub(super) fn arities(op: &str) -> Option<&'static [usize]> {
    Some(match op {
        "no_op" | "exit" | "drop" => &[0],
        "mark_to_drop" => &[0, 1],
        "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => &[1, 2],
        "resubmit" | "recirculate" | "add_header" | "remove_header" | "add_header_fast"
        | "_jump" | "truncate" | "assert" | "assume" => &[1],
        "assign"
        | "modify_field"
        | "assign_VL"
        | "assign_header"
        | "copy_header"
        | "assign_union"
        | "assign_header_stack"
        | "assign_union_stack"
        | "_jump_if_zero"
        | "push"
        | "pop"
        | "count"
        | "generate_digest"
        | "log_msg"
        | "add_to_field"
        | "subtract_from_field" => &[2],
        "register_read"
        | "execute_meter"
        | "register_write"
        | "modify_field_rng_uniform"
        | "add"
        | "subtract"
        | "bit_xor"
        | "bit_or"
        | "bit_and"
        | "shift_left"
        | "shift_right" => &[3],
        "modify_field_with_hash_based_offset" => &[4],
        _ => return None,
    })
}
