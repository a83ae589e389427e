//! `reprise drain`: begins or ends the drain of a service. A service that is drained takes no new participants.

use serde_json::json;

use crate::args::{Drain, Global};
use crate::failure::Failure;
use crate::output;

pub async fn run(global: &Global, drain: Drain) -> Result<(), Failure> {
    let is = super::api(&drain.of)?.set_draining(!drain.off).await?;
    if global.json {
        output::json(&json!({ "draining": is.draining }));
    } else if is.draining {
        output::text("draining: no new conferences and participants");
    } else {
        output::text("not draining");
    }
    Ok(())
}
