//! Sends the copies of one packet. Holds copies whose payload an extern changes ([`crate::PayloadExtern`]), so that one
//! call of the extern serves many copies.
//!
//! The order of copies is preserved. A copy that calls no extern leaves with the shared payload: at once if no copy is
//! held, and after the held copies if there are any.

use super::payload::{Asking, PayloadCall, PayloadExterns, Work};
use crate::{Frame, PortId, limits};

/// Receives a packet's copies as they leave.
pub trait Leave {
    /// Sends a copy out of a port.
    fn leave(&mut self, port: PortId, frame: Frame<'_>);

    /// Reports that a copy was dropped and counted, because an extern failed.
    fn fail(&mut self);
}

/// The held copies; buffers are reused.
#[derive(Default)]
pub(crate) struct Departures {
    ports: Vec<PortId>,
    copies: Vec<Asking>,
    heads: Vec<u8>,
    rooms: Vec<u8>,
}

impl Departures {
    pub(crate) fn is_empty(&self) -> bool {
        self.copies.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.copies.len() >= limits::PAYLOAD_BATCH_MAX
    }

    #[inline]
    pub(crate) fn hold(&mut self, call: &PayloadCall, port: PortId, head: &[u8]) {
        self.ports.push(port);
        self.copies.push(Asking::new(call, head.len()));
        self.heads.extend_from_slice(head);
    }

    /// Calls the externs and sends all held copies; returns how many failed. `shared` has the shared payload.
    pub(crate) fn give_out(
        &mut self,
        externs: &mut PayloadExterns,
        shared: Frame<'_>,
        out: &mut dyn Leave,
    ) -> usize {
        let stride = externs.room_bytes(shared.payload.len());
        let n_asking = self.copies.iter().filter(|it| it.has_request()).count();
        if self.rooms.len() < n_asking * stride {
            self.rooms.resize(n_asking * stride, 0);
        }
        externs.transform(&mut Work {
            payload: shared.payload,
            copies: &mut self.copies,
            heads: &mut self.heads,
            rooms: &mut self.rooms,
            stride,
        });
        let (mut heads, mut rooms) = (&self.heads[..], &self.rooms[..]);
        let mut n_failed = 0;
        for (port, copy) in self.ports.drain(..).zip(self.copies.drain(..)) {
            let head;
            (head, heads) = heads.split_at(copy.head_bytes);
            if !copy.has_request() {
                out.leave(port, Frame { head, ..shared });
                continue;
            }
            let room;
            (room, rooms) = rooms.split_at(stride);
            if let Some(n_bytes) = copy.result_bytes {
                let frame = Frame {
                    head,
                    payload: &room[..n_bytes],
                    payload_id: 0,
                };
                out.leave(port, frame);
            } else {
                n_failed += 1;
                out.fail();
            }
        }
        self.heads.clear();
        n_failed
    }
}
