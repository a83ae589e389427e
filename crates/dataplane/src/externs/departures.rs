//! Copies of one packet on their way out, some of which wait for an extern that changes their payloads
//! ([`crate::PayloadExtern`]), so that it is called once for many.
//!
//! The copies leave in their order. A copy that asks for nothing leaves with the payload that it shares;
//! only if some before it wait, its headers wait too.

use super::payload::{Asking, PayloadCall, PayloadExterns, Work};
use crate::{Frame, PortId, limits};

/// Takes what leaves of one packet.
pub trait Leave {
    /// A copy leaves by its port.
    fn leave(&mut self, port: PortId, frame: Frame<'_>);

    /// A copy was dropped on its way out, and has been counted as that.
    fn fail(&mut self);
}

/// The copies that wait. Their memory is used again.
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

    /// Has the externs called, and gives all copies out with what is theirs; how many have failed.
    /// `shared` has the payload that they share.
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
