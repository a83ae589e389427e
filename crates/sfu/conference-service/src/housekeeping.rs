//! What happens without anybody asking: participants end with their tokens.

use std::time::Duration;

use conference_api::LeftReason;
use conference_model::Request;
use tokio::time::{MissedTickBehavior, interval};

use crate::core::{Core, now_ms};

/// How often ended tokens are looked for.
const LOOK: Duration = Duration::from_secs(1);

/// Removes participants whose tokens have ended, for ever.
pub async fn run(core: Core) {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        for request in ended(&core, now_ms()).await {
            if let Err(error) = core.ask(request).await {
                tracing::warn!(%error, "a participant whose token has ended could not be removed");
            }
        }
    }
}

async fn ended(core: &Core, now_ms: u64) -> Vec<Request> {
    let model = core.model().await;
    let mut ended = Vec::new();
    for (conference, _) in model.conferences() {
        let Ok(participants) = model.participants(conference) else {
            continue;
        };
        let of_this = participants
            .iter()
            .filter(|(_, it)| it.expires_ms <= now_ms);
        ended.extend(of_this.map(|(participant, _)| Request::DeleteParticipant {
            conference: conference.clone(),
            participant: participant.clone(),
            reason: LeftReason::Expired,
        }));
    }
    ended
}
