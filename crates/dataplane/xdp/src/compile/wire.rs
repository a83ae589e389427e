//! Splits the headers on the wire into groups of fields that begin and end at whole bytes.

use dataplane::engine::ir::{FieldId, HeaderId, Ir};

/// Fields that share bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// In wire order.
    pub fields: Vec<FieldId>,
    /// Position of the group's first byte in the header.
    pub at: u32,
    pub bytes: u32,
}

/// Splits a header into the smallest groups. Leaves out a last group that does not end at a whole byte.
pub(super) fn groups(ir: &Ir, header: HeaderId) -> Vec<Group> {
    let mut groups = Vec::new();
    let (mut fields, mut start, mut end) = (Vec::new(), 0, 0);
    for field in ir.headers[header.index()].field_ids() {
        let bits = ir.fields[field.index()].bits;
        if bits == 0 {
            continue;
        }
        fields.push(field);
        end += bits;
        if end % 8 == 0 {
            groups.push(Group {
                fields: std::mem::take(&mut fields),
                at: start / 8,
                bytes: (end - start) / 8,
            });
            start = end;
        }
    }
    groups
}

/// Merges neighbouring groups into groups of at most 8 bytes.
pub(super) fn joined(groups: Vec<Group>) -> Vec<Group> {
    let mut joined: Vec<Group> = Vec::new();
    for group in groups {
        match joined.last_mut() {
            Some(last) if last.bytes + group.bytes <= 8 && last.at + last.bytes == group.at => {
                last.bytes += group.bytes;
                last.fields.extend(group.fields);
            }
            _ => joined.push(group),
        }
    }
    joined
}
