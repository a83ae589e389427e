//! Keys of the state table: first a byte for the pipeline's slot (forwarding or saved), then the entity.

use control::{EntityKey, Slot};

/// The first byte of the keys of packet generators, which belong to no slot because they outlive pipelines.
const OF_THE_SWITCH: u8 = 2;

/// The first byte of a slot's keys.
pub(crate) fn slot_byte(slot: Slot) -> u8 {
    match slot {
        Slot::Forwards => 0,
        Slot::Saved => 1,
    }
}

/// The range of all keys of a slot, which does not include the keys of packet generators.
pub(crate) fn slot_range(slot: Slot) -> ([u8; 1], [u8; 1]) {
    let byte = slot_byte(slot);
    ([byte], [byte + 1])
}

/// The range of the keys of packet generators.
pub(crate) fn switch_range() -> ([u8; 1], [u8; 1]) {
    ([OF_THE_SWITCH], [OF_THE_SWITCH + 1])
}

/// An entity's key. The first byte after the slot is the kind, so keys of a slot are in the order of the kinds.
pub(crate) fn of(slot: Slot, entity: &EntityKey) -> Vec<u8> {
    let slot = match entity {
        EntityKey::Generator(_) => OF_THE_SWITCH,
        _ => slot_byte(slot),
    };
    let key = postcard::to_extend(entity, vec![slot]);
    key.expect("ids and bytes are written to memory")
}

/// The key of the range of cells that begins at `start`. Keys of an array are in the order of its cells.
pub(crate) fn cells(slot: Slot, array: &EntityKey, start: u64) -> Vec<u8> {
    let mut key = of(slot, array);
    key.extend_from_slice(&start.to_be_bytes());
    key
}
