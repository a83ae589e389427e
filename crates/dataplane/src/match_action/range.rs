//! Range match: a closed interval.

use crate::value::Int;

/// Whether a value is inside.
pub(super) fn contains(low: &Int, high: &Int, value: &Int) -> bool {
    low <= value && value <= high
}
