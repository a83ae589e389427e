//! Keys of the state table: slot, class, and the entity's identity within the class.
//!
//! Classes are in the order in which a switch takes them: an entity comes after those that it
//! refers to.

use control::{EntryKey, Slot};
use dataplane::{ActionProfileId, TableId, ValueSetId};
use serde::Serialize;

/// The kind of an entity: the byte after the slot's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    Crc,
    ValueSet,
    Member,
    ProfileGroup,
    MulticastGroup,
    CloneSession,
    Digest,
    DefaultAction,
    Entry,
    Meter,
    Register,
    Generator,
}

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

fn key(slot: u8, class: Class, entity: &impl Serialize) -> Vec<u8> {
    let key = postcard::to_extend(entity, vec![slot, class as u8]);
    key.expect("ids and bytes are written to memory")
}

pub(crate) fn crc(slot: Slot, name: &str) -> Vec<u8> {
    key(slot_byte(slot), Class::Crc, &name)
}

pub(crate) fn value_set(slot: Slot, set: ValueSetId) -> Vec<u8> {
    key(slot_byte(slot), Class::ValueSet, &set)
}

pub(crate) fn member(slot: Slot, profile: ActionProfileId, id: u32) -> Vec<u8> {
    key(slot_byte(slot), Class::Member, &(profile, id))
}

pub(crate) fn profile_group(slot: Slot, profile: ActionProfileId, id: u32) -> Vec<u8> {
    key(slot_byte(slot), Class::ProfileGroup, &(profile, id))
}

pub(crate) fn multicast_group(slot: Slot, id: u32) -> Vec<u8> {
    key(slot_byte(slot), Class::MulticastGroup, &id)
}

pub(crate) fn clone_session(slot: Slot, id: u32) -> Vec<u8> {
    key(slot_byte(slot), Class::CloneSession, &id)
}

pub(crate) fn digest(slot: Slot, name: &str) -> Vec<u8> {
    key(slot_byte(slot), Class::Digest, &name)
}

pub(crate) fn default_action(slot: Slot, table: TableId) -> Vec<u8> {
    key(slot_byte(slot), Class::DefaultAction, &table)
}

pub(crate) fn entry(slot: Slot, of: &EntryKey) -> Vec<u8> {
    let EntryKey {
        table,
        key: fields,
        priority,
    } = of;
    key(slot_byte(slot), Class::Entry, &(table, fields, priority))
}

pub(crate) fn generator(id: u32) -> Vec<u8> {
    key(OF_THE_SWITCH, Class::Generator, &id)
}

/// The key of the range of cells that begins at `start`; keys of an array are in the order of its
/// cells.
pub(crate) fn cells(slot: Slot, class: Class, array: usize, start: u64) -> Vec<u8> {
    let mut key = vec![slot_byte(slot), class as u8];
    key.extend_from_slice(&(array as u64).to_be_bytes());
    key.extend_from_slice(&start.to_be_bytes());
    key
}
