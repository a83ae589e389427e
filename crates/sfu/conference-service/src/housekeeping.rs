//! Removes participants without a request: when their tokens end, or when they are gone, that is, have given no sign of
//! life for some time.

use std::sync::Arc;
use std::time::Duration;

use conference_api::LeftReason;
use conference_model::{Model, Request};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::absence::Absence;
use crate::core::{Core, now_ms};
use crate::metrics::Metrics;
use crate::presence::Presence;

/// How often participants are checked.
const LOOK: Duration = Duration::from_secs(1);

/// The task that removes participants. [`Housekeeping::run`] runs it.
#[derive(Debug)]
pub struct Housekeeping {
    /// The conferences.
    pub core: Core,
    /// The participants' signs of life other than hellos and media.
    pub presence: Presence,
    /// After how long without a sign of life a participant is gone; `None`: never.
    pub gone: Option<Duration>,
    /// The metrics, which count conferences, participants, tracks and subscriptions.
    pub metrics: Arc<Metrics>,
}

impl Housekeeping {
    /// Runs for ever, and removes participants whose tokens have ended or that are gone.
    pub async fn run(self) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut absence = self.gone.map(Absence::new);
        loop {
            looks.tick().await;
            let requests = self.look(absence.as_mut()).await;
            for request in requests {
                if let Err(error) = self.core.ask(request).await {
                    tracing::warn!(%error, "a participant that has ended or is gone could not be removed");
                }
            }
        }
    }

    async fn look(&self, absence: Option<&mut Absence>) -> Vec<Request> {
        let model = self.core.model().await;
        self.metrics.model(&model);
        let mut requests = ended(&model, now_ms());
        let is_whole = self.core.is_switch_whole();
        match absence {
            Some(absence) => {
                requests.extend(absence.look(&model, &self.presence, is_whole, Instant::now()));
            }
            None => drop(self.presence.take_requests()),
        }
        requests
    }
}

/// Returns requests that remove the participants whose tokens have ended.
#[must_use]
pub fn ended(model: &Model, now_ms: u64) -> Vec<Request> {
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
