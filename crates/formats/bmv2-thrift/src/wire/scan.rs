//! Finds the end of a call or an answer.

use super::{Type, VERSION_1, VERSION_MASK, WireError};
use crate::limits::{ANSWER_BYTES_MAX, ANSWER_VALUES_MAX, CALL_BYTES_MAX, DEPTH_MAX, VALUES_MAX};

#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    n_bytes: usize,
    n_values: usize,
}

impl Bounds {
    const CALLS: Self = Self {
        n_bytes: CALL_BYTES_MAX,
        n_values: VALUES_MAX,
    };
    pub(super) const ANSWERS: Self = Self {
        n_bytes: ANSWER_BYTES_MAX,
        n_values: ANSWER_VALUES_MAX,
    };

    pub(super) fn length(self, found: i32) -> Result<usize, WireError> {
        let max = self.n_bytes;
        let length = usize::try_from(found).ok().filter(|it| *it <= max);
        length.ok_or(WireError::Length { found, max })
    }

    pub(super) fn count(self, found: i32) -> Result<usize, WireError> {
        let max = self.n_values;
        let count = usize::try_from(found).ok().filter(|it| *it <= max);
        count.ok_or(WireError::Length { found, max })
    }
}

/// A part of the message that is not walked over yet.
#[derive(Debug, Clone, Copy)]
enum Pending {
    Head,
    /// A known number of bytes: a string, or the rest of a message's head.
    Bytes(usize),
    Fields,
    Values {
        of: Type,
        n_left: usize,
    },
    /// Values of two types in turn. After each value, the types in `of` change places.
    Pairs {
        of: (Type, Type),
        n_left: usize,
    },
}

/// Walks over a message that arrives in pieces. Each step continues where the step before stopped, so every byte is
/// walked over once.
#[derive(Debug)]
pub struct Scan {
    /// The parts not walked over yet, the innermost last. Empty when the message is complete.
    pending: Vec<Pending>,
    at: usize,
    n_values: usize,
    bounds: Bounds,
}

/// Scans a call.
impl Default for Scan {
    fn default() -> Self {
        Self::with(Bounds::CALLS)
    }
}

impl Scan {
    /// Scans an answer, which may be longer than a call.
    pub fn of_answer() -> Self {
        Self::with(Bounds::ANSWERS)
    }

    fn with(bounds: Bounds) -> Self {
        Self {
            pending: vec![Pending::Fields, Pending::Head],
            at: 0,
            n_values: 0,
            bounds,
        }
    }

    /// The length of the message at the start of `bytes`. `None` if the message is not complete: then use this function
    /// again when more bytes have arrived, with `bytes` from the same start.
    ///
    /// # Errors
    /// The bytes do not begin with an acceptable message.
    pub fn length(&mut self, bytes: &[u8]) -> Result<Option<usize>, WireError> {
        while let Some(pending) = self.pending.pop() {
            let before = self.at;
            let is_whole = self.step(bytes, pending)?.is_some();
            if !is_whole {
                self.at = before;
                self.pending.push(pending);
            }
            let max = self.bounds.n_bytes;
            if self.least_length() > max {
                return Err(WireError::TooLong(max));
            }
            if !is_whole {
                return Ok(None);
            }
        }
        Ok(Some(self.at))
    }

    /// A lower bound of the message's length, from the bytes so far.
    pub fn least_length(&self) -> usize {
        let n_bytes = self.pending.last().map_or(0, |pending| match pending {
            Pending::Bytes(n_bytes) => *n_bytes,
            _ => 1,
        });
        self.at.saturating_add(n_bytes)
    }

    /// Walks over one part. `None` if bytes are missing.
    fn step(&mut self, bytes: &[u8], pending: Pending) -> Result<Option<()>, WireError> {
        match pending {
            Pending::Head => self.head(bytes),
            Pending::Bytes(n_bytes) => Ok(self.skip(bytes, n_bytes)),
            Pending::Fields => self.field(bytes),
            Pending::Values { n_left: 0, .. } | Pending::Pairs { n_left: 0, .. } => Ok(Some(())),
            Pending::Values { of, n_left } => {
                let n_left = n_left - 1;
                self.push(Pending::Values { of, n_left })?;
                self.value(bytes, of).inspect(|whole| self.undo(whole))
            }
            Pending::Pairs { of, n_left } => {
                let (one, other) = of;
                let (of, n_left) = ((other, one), n_left - 1);
                self.push(Pending::Pairs { of, n_left })?;
                self.value(bytes, one).inspect(|whole| self.undo(whole))
            }
        }
    }

    /// If a value is incomplete, removes the pending part for the values after it, and does not count the value,
    /// because the step runs again when more bytes arrive.
    fn undo(&mut self, whole: &Option<()>) {
        if whole.is_none() {
            self.pending.pop();
            self.n_values -= 1;
        }
    }

    fn push(&mut self, pending: Pending) -> Result<(), WireError> {
        // The stack's length is the value's depth: it holds the call itself and the containers around the value.
        if self.pending.len() > DEPTH_MAX {
            return Err(WireError::TooDeep(DEPTH_MAX));
        }
        self.pending.push(pending);
        Ok(())
    }

    fn head(&mut self, bytes: &[u8]) -> Result<Option<()>, WireError> {
        let Some(first) = self.i32(bytes) else {
            return Ok(None);
        };
        if first >= 0 {
            let n_bytes = self.bounds.length(first)?;
            // Kind and sequence number follow the name.
            self.push(Pending::Bytes(n_bytes + 1 + 4))?;
            return Ok(Some(()));
        }
        let version = first.cast_unsigned() & VERSION_MASK;
        if version != VERSION_1 {
            return Err(WireError::Version(first.cast_unsigned()));
        }
        let Some(n_bytes) = self.i32(bytes) else {
            return Ok(None);
        };
        self.push(Pending::Bytes(self.bounds.length(n_bytes)? + 4))?;
        Ok(Some(()))
    }

    fn field(&mut self, bytes: &[u8]) -> Result<Option<()>, WireError> {
        let Some(of) = self.u8(bytes) else {
            return Ok(None);
        };
        if of == 0 {
            return Ok(Some(()));
        }
        let of = Type::of(of)?;
        if self.skip(bytes, 2).is_none() {
            return Ok(None);
        }
        self.push(Pending::Fields)?;
        self.value(bytes, of).inspect(|whole| self.undo(whole))
    }

    /// Walks over a value of fixed size, or pushes the parts of a value of variable size.
    fn value(&mut self, bytes: &[u8], of: Type) -> Result<Option<()>, WireError> {
        self.n_values += 1;
        if self.n_values > self.bounds.n_values {
            return Err(WireError::TooMany(self.bounds.n_values));
        }
        if let Some(n_bytes) = of.fixed_bytes() {
            return Ok(self.skip(bytes, n_bytes));
        }
        let pending = match of {
            Type::Struct => Some(Pending::Fields),
            Type::Map => self.pairs(bytes)?,
            Type::List | Type::Set => self.values(bytes)?,
            _ => match self.i32(bytes) {
                Some(n_bytes) => Some(Pending::Bytes(self.bounds.length(n_bytes)?)),
                None => None,
            },
        };
        match pending {
            Some(pending) => self.push(pending).map(Some),
            None => Ok(None),
        }
    }

    fn values(&mut self, bytes: &[u8]) -> Result<Option<Pending>, WireError> {
        let (Some(of), Some(n_values)) = (self.u8(bytes), self.i32(bytes)) else {
            return Ok(None);
        };
        let n_left = self.bounds.count(n_values)?;
        if n_left == 0 {
            return Ok(Some(Pending::Bytes(0)));
        }
        let of = Type::of(of)?;
        Ok(Some(Pending::Values { of, n_left }))
    }

    fn pairs(&mut self, bytes: &[u8]) -> Result<Option<Pending>, WireError> {
        let (Some(one), Some(other), Some(n_pairs)) =
            (self.u8(bytes), self.u8(bytes), self.i32(bytes))
        else {
            return Ok(None);
        };
        let n_left = 2 * self.bounds.count(n_pairs)?;
        if n_left == 0 {
            return Ok(Some(Pending::Bytes(0)));
        }
        let of = (Type::of(one)?, Type::of(other)?);
        Ok(Some(Pending::Pairs { of, n_left }))
    }

    fn skip(&mut self, bytes: &[u8], n_bytes: usize) -> Option<()> {
        let end = self.at + n_bytes;
        (end <= bytes.len()).then(|| self.at = end)
    }

    fn u8(&mut self, bytes: &[u8]) -> Option<u8> {
        let byte = *bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn i32(&mut self, bytes: &[u8]) -> Option<i32> {
        let value = bytes.get(self.at..self.at + 4)?;
        self.at += 4;
        value.try_into().ok().map(i32::from_be_bytes)
    }
}
