//! Action profiles and selectors: not supported yet. A program that binds a table to one is
//! refused when it is loaded, so that it never runs wrongly.

/// Why a table of this `type` in the BMv2 JSON cannot be loaded; none for a simple table.
pub(crate) fn check_supported(kind: &str) -> Option<String> {
    match kind {
        "simple" => None,
        "indirect" => Some("action profiles are not supported yet".into()),
        "indirect_ws" => Some("action selectors are not supported yet".into()),
        other => Some(format!("unknown type \"{other}\"")),
    }
}
