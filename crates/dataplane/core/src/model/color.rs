//! The colours of meters, as v1model's `MeterColor` numbers them.

/// Within the committed rate.
pub const GREEN: u8 = 0;
/// Above the committed rate, within the peak rate or the excess burst.
pub const YELLOW: u8 = 1;
/// Above the peak rate or beyond the excess burst.
pub const RED: u8 = 2;
