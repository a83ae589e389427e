//! Keys of the state table: slot, then the entity's place.

use control::{Place, Slot};

/// Generators belong to the switch and outlive pipelines: they have a slot of their own.
const OF_THE_SWITCH: u8 = 2;

/// The first byte of a slot's keys.
pub(crate) fn slot_byte(slot: Slot) -> u8 {
    match slot {
        Slot::Forwards => 0,
        Slot::Saved => 1,
    }
}

/// All keys of a slot. Those of the switch are in no slot.
pub(crate) fn slot_range(slot: Slot) -> ([u8; 1], [u8; 1]) {
    let byte = slot_byte(slot);
    ([byte], [byte + 1])
}

/// All keys of the switch.
pub(crate) fn switch_range() -> ([u8; 1], [u8; 1]) {
    ([OF_THE_SWITCH], [OF_THE_SWITCH + 1])
}

/// An entity's key. The first byte of a place is its kind, so keys of a slot are in the order of the kinds.
pub(crate) fn of(slot: Slot, place: &Place) -> Vec<u8> {
    let slot = match place {
        Place::Generator(_) => OF_THE_SWITCH,
        _ => slot_byte(slot),
    };
    let key = postcard::to_extend(place, vec![slot]);
    key.expect("ids and bytes are written to memory")
}

/// The key of the range of cells that begins at `start`. Keys of an array are in the order of its cells.
pub(crate) fn cells(slot: Slot, array: &Place, start: u64) -> Vec<u8> {
    let mut key = of(slot, array);
    key.extend_from_slice(&start.to_be_bytes());
    key
}
