//! Compiles a verified program to eBPF.
//!
//! The code follows a frame: find its port ([`ports`]), parse it ([`parser`], [`variable`], along [`paths`] computed
//! before), verify checksums ([`checksum`], [`hash`]), run controls ([`control`], [`lookup`], [`primitive`], [`meter`],
//! [`expression`], [`truth`]), and deparse it ([`deparser`]). Digests to the control plane are made at the end of
//! ingress ([`digest`]). A packet that leaves by one port goes through egress in the same program. The copies of a
//! packet to a multicast group have a program of their own ([`copies`]). That program reads the headers again from the
//! frame that ingress has written, and reads the metadata from a record in front of the frame ([`note`]).
//!
//! *Punts.* What cannot be compiled becomes a punt: the packet is left to the engine in user space. The punt takes the
//! place of the smallest enclosing construct: an action, a table, a parser state, a condition or a checksum. A punted
//! packet must be unchanged and not counted. So the code first records in a journal which counters the packet
//! increments. Only the deparser writes to the frame. Counters are incremented, and a digest is sent, only once it is
//! certain how the packet ends. Meters are the exception: they take tokens at once.
//!
//! *State.* Fields are in per-processor memory, not on the stack, which has only 512 bytes. So the verifier does not
//! track their values, and sees few paths through a program.

mod checksum;
mod control;
mod copies;
mod deparser;
mod digest;
mod emit;
mod expression;
mod found;
mod hash;
mod layout;
mod lookup;
mod memory;
mod meter;
mod needs;
mod note;
mod parser;
mod paths;
mod polls;
mod ports;
mod primitive;
mod truth;
mod uses;
mod variable;
mod wire;

use dataplane::{Program, engine::Interpreted};
use thiserror::Error;

use self::{
    digest::message_words,
    emit::{Emit, Emitted, Kind},
    layout::{Layout, Word},
    memory::Memory,
    needs::Needs,
    note::Note,
    paths::Paths,
};
use crate::{
    asm::Code,
    image::{FanOut, Image, Noted, Room, Scratch},
};

/// Why a program is not worth running in the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// Compiles a program.
///
/// # Errors
/// Why nothing of the program can run in the kernel.
pub fn compile(program: &Program, room: &Room) -> Result<Image, Refused> {
    image(program, room).map_err(Refused)
}

/// Compiles a program. If that fails, for example because jumps would be too far, tries again with fewer visits of
/// parser states ([`Paths`]).
fn image(program: &Program, room: &Room) -> Emitted<Image> {
    let all = image_of(program, room, room.parser_visits);
    let fewer = [room.parser_visits / 4, room.parser_visits / 16].into_iter();
    fewer.fold(all, |image, n_visits_max| {
        image.or_else(|reason| image_of(program, room, n_visits_max).map_err(|_| reason))
    })
}

fn image_of(program: &Program, room: &Room, n_visits_max: usize) -> Emitted<Image> {
    let ir = program.ir();
    let paths = Paths::new(ir, n_visits_max);
    let needs = Needs::new(program, paths.is_regular);
    let layout = Layout::new(ir, message_words(ir, &needs.digests))?;
    let mut left = Vec::new();
    let memory = Memory::new(program, &layout, room, &needs, &mut left)?;
    let mut copies = None;
    if memory.fan_out.is_some() {
        let made = Note::new(&layout, &needs).and_then(|note| {
            let mut emit = Emit::new(program, &layout, &memory, &needs, Kind::Copies);
            emit.copies(&note)?;
            let journal = journal(&emit);
            Ok((note, finish(emit)?, journal))
        });
        match made {
            Ok(made) => copies = Some(made),
            Err(reason) => left.push(Interpreted {
                place: "copies of a multicast group".into(),
                reason,
            }),
        }
    }
    let mut emit = Emit::new(program, &layout, &memory, &needs, Kind::Ports);
    emit.ports(&paths, copies.as_ref().map(|(note, ..)| note))?;
    left.append(&mut emit.left);
    let of_ports = journal(&emit);
    let ingress = finish(emit)?;
    let (fan_out, egress, of_copies) = match (memory.fan_out, copies) {
        (Some(fan_out), Some((note, code, journal))) => {
            let note_bytes = note.bytes();
            let fan_out = FanOut {
                note_bytes,
                ..fan_out
            };
            (Some(fan_out), Some(code), journal)
        }
        _ => (None, None, Vec::new()),
    };
    let word = |word| layout.word(word) as u32;
    Ok(Image {
        ingress,
        fan_out,
        egress,
        scratch: Scratch {
            end: word(Word::End),
            reason: word(Word::Reason),
            out_port: word(Word::OutPort),
            journals: [of_ports, of_copies],
        },
        maps: memory.maps,
        heap: memory.heap,
        constants: memory.constants,
        counters: memory.counters,
        tables: memory.tables,
        meters: memory.meters,
        direct_meters: memory.direct_meters,
        left,
    })
}

fn journal(emit: &Emit<'_>) -> Vec<Noted> {
    let entries = (0..).zip(&emit.journal);
    entries
        .map(|(entry, first)| Noted {
            at: emit.layout.journal(entry) as u32,
            first: *first,
        })
        .collect()
}

fn finish(emit: Emit<'_>) -> Emitted<Code> {
    emit.asm.finish().map_err(|error| error.to_string())
}
