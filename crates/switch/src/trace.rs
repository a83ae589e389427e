//! Where the trace of packets goes.

use dataplane::TraceSink;

use crate::error::SwitchError;
use crate::options::Options;

/// What `--trace` and `--trace-to` ask for.
pub(crate) fn sink(_options: &Options) -> Result<Option<Box<dyn TraceSink>>, SwitchError> {
    Ok(None)
}
