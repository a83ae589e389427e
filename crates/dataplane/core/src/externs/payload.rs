//! Payload externs: the interface, and what an implementation may rely on. A payload extern changes the payload of a
//! copy of a packet in egress.
//!
//! A program calls an extern in egress like a function with integer arguments. The call is a request, which the switch
//! carries out when the copy is about to leave. The contract:
//!
//! (a) *When.* The extern runs after checksum update and deparser, and before truncation. It does not run for a dropped
//!     copy. Only the last call of a pass counts; without a call, the payload stays the same.
//! (b) *Payload.* The payload is everything after the deparsed headers. All copies of the packet share it, so it is
//!     read only; each result has its own buffer.
//! (c) *Batches.* The extern may get the copies of one packet in one call, in order and at most
//!     [`limits::PAYLOAD_BATCH_MAX`] of them, or may get each copy in its own call. A copy's result must not depend on
//!     how the copies are grouped into calls.
//! (d) *Length.* A result may be shorter than the payload, or at most [`PayloadExtern::growth_bytes_max`] longer. The
//!     program must set length fields in the same pass, before the deparser, so it must know how many bytes the extern
//!     adds.
//! (e) *Headers.* The extern gets the headers as bytes, because it may authenticate them. It may overwrite the bytes,
//!     because a checksum over the payload (UDP's over IPv6) can be completed only here. It cannot change the number of
//!     bytes. For UDP over IPv4, the program may write the checksum 0, which means no checksum.
//! (f) *Failure.* A copy for which the extern does not call [`PayloadCopy::finish`] is dropped and counted
//!     ([`DropReason::PayloadExternFailed`]).
//! (g) *Afterwards.* The frame that leaves, goes to the control plane or recirculates has the new payload. A clone that
//!     the egress pass made was made before the extern ran, and has the old payload.
//! (h) *State* belongs to the extern and survives a change of program. All calls come from the thread that runs the
//!     switch.
//!
//! [`DropReason::PayloadExternFailed`]: crate::DropReason::PayloadExternFailed

use std::{mem, slice};

use crate::{
    Controlled, limits,
    model::ControlErrorKind,
    program::{ParamInfo, PayloadSignature, is_primitive},
    refuse,
};

/// Changes payloads; see the module for the contract.
pub trait PayloadExtern: Send {
    /// The extern's parameters: at most [`limits::PAYLOAD_ARGS_MAX`], of up to 64 bits each.
    fn params(&self) -> Vec<ParamInfo>;

    /// The highest number of bytes that the extern adds to a payload; at most [`limits::PAYLOAD_GROWTH_BYTES_MAX`].
    fn growth_bytes_max(&self) -> usize {
        0
    }

    /// Writes new payloads for copies of one packet.
    fn transform(&mut self, copies: PayloadBatch<'_>);
}

/// A copy's request to a payload extern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct PayloadCall {
    /// The extern's [`PayloadExternId`] plus 1; 0 is no request.
    ///
    /// [`PayloadExternId`]: crate::engine::ir::PayloadExternId
    pub function: u32,
    /// One argument per parameter of the extern; the other elements of the array are undefined.
    pub args: [u64; limits::PAYLOAD_ARGS_MAX],
}

impl PayloadCall {
    /// No request.
    pub const NONE: Self = Self {
        function: 0,
        args: [0; limits::PAYLOAD_ARGS_MAX],
    };

    /// Whether there is a request.
    #[inline]
    pub fn is_some(&self) -> bool {
        self.function != 0
    }
}

/// A copy and the result of its request.
#[derive(Debug)]
pub(crate) struct Asking {
    call: PayloadCall,
    pub(super) head_bytes: usize,
    /// Number of bytes that the extern wrote; `None` if it failed or was not called.
    pub(super) result_bytes: Option<usize>,
}

impl Asking {
    pub(crate) fn new(call: &PayloadCall, head_bytes: usize) -> Self {
        Self {
            call: *call,
            head_bytes,
            result_bytes: None,
        }
    }

    pub(crate) fn has_request(&self) -> bool {
        self.call.is_some()
    }
}

/// Copies of one packet that call the same extern, in order.
#[derive(Debug)]
pub struct PayloadBatch<'a> {
    payload: &'a [u8],
    function: u32,
    n_args: usize,
    /// The size of the buffer for one result, in bytes.
    room_bytes: usize,
    /// The distance in `rooms` from the buffer of one result to the next, in bytes.
    stride: usize,
    /// The remaining copies, including those that call nothing or another extern.
    copies: slice::IterMut<'a, Asking>,
    heads: &'a mut [u8],
    /// One buffer for each copy with a request.
    rooms: &'a mut [u8],
}

/// A copy whose payload is to be changed.
#[derive(Debug)]
pub struct PayloadCopy<'a> {
    /// One argument per parameter.
    pub args: &'a [u64],
    /// The headers as the deparser wrote them.
    pub head: &'a mut [u8],
    /// Buffer for the result; its length is the payload's length plus the extern's growth.
    pub room: &'a mut [u8],
    result_bytes: &'a mut Option<usize>,
}

impl<'a> PayloadBatch<'a> {
    /// The payload that all copies share.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

impl<'a> Iterator for PayloadBatch<'a> {
    type Item = PayloadCopy<'a>;

    #[inline]
    fn next(&mut self) -> Option<PayloadCopy<'a>> {
        loop {
            let asking = self.copies.next()?;
            let head = take_front(&mut self.heads, asking.head_bytes);
            if !asking.has_request() {
                continue;
            }
            let room = take_front(&mut self.rooms, self.stride);
            if asking.call.function == self.function {
                return Some(PayloadCopy {
                    args: &asking.call.args[..self.n_args],
                    head,
                    room: &mut room[..self.room_bytes],
                    result_bytes: &mut asking.result_bytes,
                });
            }
        }
    }
}

impl PayloadCopy<'_> {
    /// Declares the first `n_bytes` of `room` to be the new payload.
    ///
    /// # Panics
    /// If `room` is shorter than `n_bytes`.
    pub fn finish(self, n_bytes: usize) {
        let n_room = self.room.len();
        assert!(
            n_bytes <= n_room,
            "an extern wrote {n_bytes} bytes of payload where there is room for {n_room}"
        );
        *self.result_bytes = Some(n_bytes);
    }
}

fn take_front<'a>(bytes: &mut &'a mut [u8], n_bytes: usize) -> &'a mut [u8] {
    let (front, rest) = mem::take(bytes).split_at_mut(n_bytes);
    *bytes = rest;
    front
}

/// Copies, their concatenated headers, and buffers of `stride` bytes for the results.
pub(crate) struct Work<'a> {
    pub payload: &'a [u8],
    pub copies: &'a mut [Asking],
    pub heads: &'a mut [u8],
    pub rooms: &'a mut [u8],
    pub stride: usize,
}

#[derive(Default)]
pub(crate) struct PayloadExterns {
    registered: Vec<(PayloadSignature, Box<dyn PayloadExtern>)>,
    /// Indices into `registered`, by [`crate::engine::ir::PayloadExternId`].
    of_program: Vec<usize>,
    growth_bytes_max: usize,
}

/// Replaces an extern in a switch that receives no packets.
struct StandIn(PayloadSignature);

impl PayloadExtern for StandIn {
    fn params(&self) -> Vec<ParamInfo> {
        self.0.params.clone()
    }

    fn growth_bytes_max(&self) -> usize {
        self.0.growth_bytes_max
    }

    fn transform(&mut self, _: PayloadBatch<'_>) {}
}

impl PayloadExterns {
    /// Registers stand-ins for another switch's externs.
    pub(crate) fn stand_in(&mut self, signatures: &[PayloadSignature]) {
        for signature in signatures {
            let stand_in = Box::new(StandIn(signature.clone()));
            self.registered.push((signature.clone(), stand_in));
        }
    }

    pub(crate) fn register(&mut self, name: &str, made: Box<dyn PayloadExtern>) -> Controlled {
        let signature = PayloadSignature {
            name: name.to_owned(),
            params: made.params(),
            growth_bytes_max: made.growth_bytes_max(),
        };
        self.check(&signature)?;
        self.registered.push((signature, made));
        Ok(())
    }

    fn check(&self, signature: &PayloadSignature) -> Controlled {
        let PayloadSignature {
            name,
            params,
            growth_bytes_max,
        } = signature;
        let invalid = |found: String| {
            let message = format!("extern \"{name}\": {found}");
            refuse(ControlErrorKind::InvalidArgument, message)
        };
        let (args_max, growth_max) = (limits::PAYLOAD_ARGS_MAX, limits::PAYLOAD_GROWTH_BYTES_MAX);
        if name.is_empty() || is_primitive(name) {
            return invalid("expected a name that no primitive of the architecture has".into());
        }
        if self.signatures().any(|it| it.name == *name) {
            let message = format!("extern \"{name}\" is registered already");
            return refuse(ControlErrorKind::AlreadyExists, message);
        }
        if params.len() > args_max {
            let found = params.len();
            return invalid(format!(
                "expected {args_max} parameters at most, found {found}"
            ));
        }
        if let Some(param) = params.iter().find(|it| !(1..=64).contains(&it.width_bits)) {
            let ParamInfo {
                name, width_bits, ..
            } = param;
            return invalid(format!(
                "parameter \"{name}\": expected 1 to 64 bits, found {width_bits}"
            ));
        }
        if *growth_bytes_max > growth_max {
            return invalid(format!(
                "expected {growth_max} bytes at most that a payload grows, found {growth_bytes_max}"
            ));
        }
        Ok(())
    }

    pub(crate) fn signatures(&self) -> impl Iterator<Item = &PayloadSignature> {
        self.registered.iter().map(|(signature, _)| signature)
    }

    /// Resolves the externs that a program calls.
    ///
    /// # Panics
    /// If an extern is not registered, because the program was loaded for another switch.
    #[expect(
        clippy::panic,
        reason = "whoever loads a program names the switch's externs"
    )]
    pub(crate) fn bind(&mut self, called: &[PayloadSignature]) {
        let place = |wanted: &PayloadSignature| {
            let place = self.signatures().position(|it| it == wanted);
            let name = &wanted.name;
            place.unwrap_or_else(|| {
                panic!("the program calls the extern \"{name}\", which this switch does not have")
            })
        };
        self.of_program = called.iter().map(place).collect();
        let growths = called.iter().map(|it| it.growth_bytes_max);
        self.growth_bytes_max = growths.max().unwrap_or_default();
    }

    /// Returns the size in bytes of a buffer that holds the result of any extern of the program.
    pub(crate) fn room_bytes(&self, payload_bytes: usize) -> usize {
        payload_bytes + self.growth_bytes_max
    }

    /// Changes the payload of a single packet and writes the result to the start of `room`. Returns the result's
    /// length, or `None` if the extern failed.
    pub(crate) fn transform_one(
        &mut self,
        call: &PayloadCall,
        [head, room]: [&mut [u8]; 2],
        payload: &[u8],
    ) -> Option<usize> {
        let mut copy = Asking::new(call, head.len());
        self.transform(&mut Work {
            payload,
            copies: slice::from_mut(&mut copy),
            heads: head,
            stride: room.len(),
            rooms: room,
        });
        copy.result_bytes
    }

    /// Calls each extern for the copies that ask for it.
    pub(crate) fn transform(&mut self, work: &mut Work<'_>) {
        for (function, place) in (1..).zip(&self.of_program) {
            if work.copies.iter().any(|it| it.call.function == function) {
                let (signature, asked) = &mut self.registered[*place];
                asked.transform(PayloadBatch {
                    payload: work.payload,
                    function,
                    n_args: signature.params.len(),
                    room_bytes: work.payload.len() + signature.growth_bytes_max,
                    stride: work.stride,
                    copies: work.copies.iter_mut(),
                    heads: work.heads,
                    rooms: work.rooms,
                });
            }
        }
    }
}
