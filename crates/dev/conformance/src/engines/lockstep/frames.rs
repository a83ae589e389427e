//! Makes frames that a program's parser accepts. A random walk through the parser's states writes the values that each
//! chosen transition needs into the frame. The walk needs only the loaded program, so no program needs its own code
//! that makes frames.

use std::collections::HashMap;

use dataplane::engine::ir::{
    AnyStack, Arithmetic, CalculationInput, Expr, ExtractTarget, FieldId, HeaderId, Int, Ir,
    KeyPart, ParserOp, Place, State, TransitionCase,
};
use fastrand::Rng;

/// Maximum number of states in one walk.
const STATES_MAX: usize = 24;
/// Maximum number of header bytes in one frame.
const HEADERS_MAX_BYTES: usize = 1_200;
/// Maximum number of bytes after the headers.
const PAYLOAD_MAX_BYTES: usize = 90;

/// The position and length of a sequence of bits in a frame.
#[derive(Clone, Copy)]
struct Span {
    offset: usize,
    bits: usize,
}

/// A walk through the parser's states, and the frame so far.
struct Walk<'a> {
    ir: &'a Ir,
    rng: &'a mut Rng,
    frame: Vec<u8>,
    /// Number of bytes that are already extracted or skipped.
    at: usize,
    spans: HashMap<FieldId, Span>,
    next_index: HashMap<(bool, usize), usize>,
}

pub fn random(ir: &Ir, rng: &mut Rng) -> Vec<u8> {
    let mut walk = Walk {
        ir,
        rng,
        frame: Vec::new(),
        at: 0,
        spans: HashMap::new(),
        next_index: HashMap::new(),
    };
    walk.run();
    walk.checksums();
    let Walk {
        mut frame, at, rng, ..
    } = walk;
    frame.truncate(at.max(1));
    let payload = rng.usize(..=PAYLOAD_MAX_BYTES);
    frame.extend((0..payload).map(|_| rng.u8(..)));
    match rng.u8(..12) {
        0 => frame.truncate(rng.usize(..=frame.len())),
        1 => {
            for _ in 0..rng.u8(1..5) {
                let at = rng.usize(..frame.len().max(1));
                if let Some(byte) = frame.get_mut(at) {
                    *byte = rng.u8(..);
                }
            }
        }
        _ => {}
    }
    frame
}

impl Walk<'_> {
    fn run(&mut self) {
        let mut state = self.ir.parser.start;
        for _ in 0..STATES_MAX {
            let Some(id) = state else { return };
            let current = &self.ir.parser.states[id.index()];
            for op in &current.ops {
                self.op(op);
            }
            if self.at > HEADERS_MAX_BYTES {
                return;
            }
            let n_arrows = current.transitions.len();
            // Each other transition is chosen three times as often as the default transition.
            let chosen = self.rng.usize(..=n_arrows * 3) / 3;
            state = match current.transitions.get(chosen) {
                Some(arrow) => {
                    if let TransitionCase::Values(cases) = &arrow.case {
                        self.ask(current, cases);
                    }
                    arrow.next
                }
                None => current.default,
            };
        }
    }

    /// Writes the values of one transition's case into the frame.
    fn ask(&mut self, state: &State, cases: &[(Int, Option<Int>)]) {
        for (part, (value, mask)) in state.key.iter().zip(cases) {
            let mask = match mask {
                Some(mask) => u128::try_from(mask).unwrap_or(u128::MAX),
                None => u128::MAX,
            };
            let Ok(value) = u128::try_from(value) else {
                continue;
            };
            match part {
                KeyPart::Value { value: of, .. } => self.put(of, value, mask),
                KeyPart::Lookahead { offset, bits } => {
                    let span = Span {
                        offset: self.at * 8 + *offset as usize,
                        bits: *bits as usize,
                    };
                    self.write(span, value, mask);
                }
            }
        }
    }

    /// Writes a value into the frame where an expression reads it, if the expression is a field or some of its bits.
    fn put(&mut self, of: &Expr, value: u128, mask: u128) {
        match of {
            Expr::Field(field) => {
                if let Some(span) = self.spans.get(field).copied() {
                    self.write(span, value, mask);
                }
            }
            Expr::Arithmetic(Arithmetic::And, inner, _) => self.put(inner, value, mask),
            Expr::Arithmetic(Arithmetic::ShiftRight, inner, by) => {
                if let Expr::Const(by) = &**by
                    && let Ok(by) = u32::try_from(by)
                    && let (Some(value), Some(mask)) = (value.checked_shl(by), mask.checked_shl(by))
                {
                    self.put(inner, value, mask);
                }
            }
            _ => {}
        }
    }

    fn op(&mut self, op: &ParserOp) {
        match op {
            ParserOp::Extract(target) => self.extract(target, 0),
            ParserOp::ExtractVariable { target, bits } => {
                let bits = self.eval(bits).and_then(|bits| usize::try_from(bits).ok());
                self.extract(target, bits.unwrap_or(0).min(HEADERS_MAX_BYTES * 8));
            }
            ParserOp::Set {
                to: Place::Field(to),
                from: Expr::Field(from),
            } => {
                if let Some(span) = self.spans.get(from).copied() {
                    self.spans.insert(*to, span);
                }
            }
            ParserOp::SetLookahead {
                to: Place::Field(to),
                offset,
                bits,
            } => {
                let span = Span {
                    offset: self.at * 8 + *offset as usize,
                    bits: *bits as usize,
                };
                self.grow(span.offset + span.bits);
                self.spans.insert(*to, span);
            }
            ParserOp::Advance { bits } => {
                let bits = self.eval(bits).and_then(|bits| usize::try_from(bits).ok());
                self.at += bits.unwrap_or(0).min(HEADERS_MAX_BYTES * 8) / 8;
                self.grow(self.at * 8);
            }
            _ => {}
        }
    }

    /// Returns the value of a simple expression over the frame's bytes.
    fn eval(&self, expr: &Expr) -> Option<i128> {
        match expr {
            Expr::Const(value) => i128::try_from(value).ok(),
            Expr::Field(field) => i128::try_from(self.read(*self.spans.get(field)?)).ok(),
            Expr::Arithmetic(op, left, right) => {
                let (left, right) = (self.eval(left)?, self.eval(right)?);
                let by = u32::try_from(right).ok();
                match op {
                    Arithmetic::Add => left.checked_add(right),
                    Arithmetic::Sub => left.checked_sub(right),
                    Arithmetic::Mul => left.checked_mul(right),
                    Arithmetic::And => Some(left & right),
                    Arithmetic::ShiftLeft => left.checked_shl(by?),
                    Arithmetic::ShiftRight => left.checked_shr(by?),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn extract(&mut self, target: &ExtractTarget, variable_bits: usize) {
        let Some(header) = self.target(target) else {
            return;
        };
        let header = &self.ir.headers[header.index()];
        let mut offset = self.at * 8;
        for id in header.field_ids() {
            let bits = if Some(id) == header.variable_field {
                variable_bits
            } else {
                self.ir.fields[id.index()].bits as usize
            };
            let span = Span { offset, bits };
            if self.frame.len() * 8 <= offset + bits {
                self.grow(offset + bits);
                self.randomise(span);
            }
            self.spans.insert(id, span);
            offset += bits;
        }
        self.at = offset / 8;
        self.grow(self.at * 8);
    }

    fn target(&mut self, target: &ExtractTarget) -> Option<HeaderId> {
        let (stack, member) = match target {
            ExtractTarget::Header(header) => return Some(*header),
            ExtractTarget::Next { stack, member } => (*stack, *member),
        };
        let slot = match stack {
            AnyStack::Headers(stack) => (false, stack.index()),
            AnyStack::Unions(stack) => (true, stack.index()),
        };
        let next = self.next_index.entry(slot).or_default();
        let found = self.ir.element(stack, member, *next);
        *next += 1;
        found
    }

    /// Writes a random value, often a small number, 0 or all ones, so that fields often match entries' keys.
    fn randomise(&mut self, span: Span) {
        match self.rng.u8(..6) {
            0 => self.write(span, u128::MAX, u128::MAX),
            1 | 2 => {
                let value = u128::from(self.rng.u8(..8));
                self.write(span, value, u128::MAX);
            }
            3 => self.write(span, 0, u128::MAX),
            _ => {
                let value = self.rng.u128(..);
                self.write(span, value, u128::MAX);
            }
        }
    }

    fn grow(&mut self, bits: usize) {
        let len = bits.div_ceil(8);
        while self.frame.len() < len {
            let byte = self.rng.u8(..);
            self.frame.push(byte);
        }
    }

    /// Writes the bits of a value that the mask selects. The value's lowest bit is the last bit of the span.
    fn write(&mut self, span: Span, value: u128, mask: u128) {
        self.grow(span.offset + span.bits);
        for n in 0..span.bits.min(128) {
            if mask >> n & 1 == 0 {
                continue;
            }
            let bit = span.offset + span.bits - 1 - n;
            let place = 0x80 >> (bit % 8);
            match value >> n & 1 {
                0 => self.frame[bit / 8] &= !place,
                _ => self.frame[bit / 8] |= place,
            }
        }
    }

    /// Returns the lowest 127 bits of a span.
    fn read(&self, span: Span) -> u128 {
        let start = span.offset + span.bits.saturating_sub(127);
        (start..span.offset + span.bits).fold(0, |value, bit| {
            let byte = self.frame.get(bit / 8).copied().unwrap_or(0);
            value << 1 | u128::from(byte >> (7 - bit % 8) & 1)
        })
    }

    /// Corrects most of the checksums that the program verifies, if they are sums over fields and constants.
    fn checksums(&mut self) {
        let ir = self.ir;
        for checksum in ir.checksums.iter().filter(|checksum| checksum.verify) {
            let Some(target) = self.spans.get(&checksum.target).copied() else {
                continue;
            };
            let input = &ir.calculations[checksum.calculation.index()].input;
            if let Some(sum) = self.sum(input)
                && self.rng.u8(..5) > 0
            {
                self.write(target, u128::from(!sum), u128::MAX);
            }
        }
    }

    /// Returns the one's complement sum (RFC 1071) over fields and constants, or `None` for any other input.
    fn sum(&self, input: &[CalculationInput]) -> Option<u16> {
        let mut bits: Vec<bool> = Vec::new();
        let mut push = |value: u128, n_bits: usize| {
            bits.extend((0..n_bits).rev().map(|n| n < 128 && value >> n & 1 == 1));
        };
        for part in input {
            match part {
                CalculationInput::Field(field) => {
                    let span = *self.spans.get(field)?;
                    push(self.read(span), span.bits);
                }
                CalculationInput::Constant { value, bits } => {
                    push(u128::try_from(value).ok()?, *bits as usize);
                }
                _ => return None,
            }
        }
        let mut sum = 0_u64;
        for word in bits.chunks(16) {
            let number = word
                .iter()
                .fold(0_u64, |number, bit| number << 1 | u64::from(*bit));
            sum += number << (16 - word.len());
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(sum).ok()
    }
}
