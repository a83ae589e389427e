//! The colours of meters, as v1model's `MeterColor` numbers them.

pub(crate) const GREEN: u8 = 0;
pub(crate) const YELLOW: u8 = 1;
pub(crate) const RED: u8 = 2;
