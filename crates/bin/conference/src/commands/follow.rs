//! Follows the events of a conference, also across restarts of its service.

use std::time::Duration;

use conference_api::{Event, LeftReason, Name, Participant};
use conference_client::{Api, ApiError, Watch};
use tokio::time::{Instant, sleep, sleep_until};

use crate::failure::Failure;
use crate::output;

/// The pause before the next attempt to reach the service.
const AGAIN: Duration = Duration::from_millis(500);
/// How often the conference is read even if no event has come, since events may have been lost.
const READ_AGAIN: Duration = Duration::from_secs(30);

/// Why following stops.
pub enum Stop {
    /// The service cannot be reached now; [`follow`] waits for it.
    Away(ApiError),
    /// The conference has ended.
    Conference,
    Failed(Failure),
}

impl From<ApiError> for Stop {
    fn from(error: ApiError) -> Stop {
        if error.is_transient() {
            Stop::Away(error)
        } else {
            Stop::Failed(error.into())
        }
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}

/// What a program does with the conference that it follows. After [`Stop::Away`] the conference is read again.
pub trait Follower {
    /// Reads the conference, and handles what it has at this time.
    async fn read(&mut self) -> Result<(), Stop>;

    /// Handles an event of the conference.
    async fn event(&mut self, event: Event) -> Result<(), Stop>;

    /// Waits until one of the follower's own tasks has failed; may be cancelled at any time.
    async fn failed(&mut self) -> Failure;
}

/// Follows a conference until it ends.
pub async fn follow(
    api: &Api,
    conference: &Name,
    follower: &mut impl Follower,
) -> Result<(), Failure> {
    let mut is_away = false;
    loop {
        match session(api, conference, follower, &mut is_away).await {
            Stop::Away(error) => {
                if !is_away {
                    is_away = true;
                    output::error_line(format_args!(
                        "reprise: {error}; tracks go on as long as they come, and the service is waited for"
                    ));
                }
                tokio::select! {
                    () = sleep(AGAIN) => {}
                    failure = follower.failed() => return Err(failure),
                }
            }
            Stop::Conference => return Ok(()),
            Stop::Failed(failure) => return Err(failure),
        }
    }
}

/// Follows a conference until it ends, the service cannot be reached, or something fails. Returns which of these has
/// happened.
async fn session(
    api: &Api,
    conference: &Name,
    follower: &mut impl Follower,
    is_away: &mut bool,
) -> Stop {
    let watched = api.watch(conference).await;
    // The request for events comes before the read, so that no event during the read is missed.
    if let Err(stop) = follower.read().await {
        return stop;
    }
    match watched {
        Ok(events) => {
            if std::mem::take(is_away) {
                output::error_line("reprise: the service is back");
            }
            take_events(events, follower).await
        }
        // If the service had refused the request for events, it would have refused the read, too.
        Err(error) => Stop::Away(error),
    }
}

async fn take_events(mut events: Watch, follower: &mut impl Follower) -> Stop {
    let mut read_at = Instant::now() + READ_AGAIN;
    loop {
        let done = tokio::select! {
            event = events.next() => match event {
                Some(event) => follower.event(event).await,
                None => return Stop::Away(events.ended()),
            },
            failure = follower.failed() => Err(Stop::Failed(failure)),
            () = sleep_until(read_at) => {
                read_at = Instant::now() + READ_AGAIN;
                follower.read().await
            }
        };
        if let Err(stop) = done {
            return stop;
        }
    }
}

/// Returns why the program stops when its own participant is no longer in the conference.
pub fn own_left(own: &Name, reason: LeftReason) -> Stop {
    let why = match reason {
        LeftReason::ConferenceEnded => return Stop::Conference,
        LeftReason::Expired => "its token has expired: start again with a new one",
        LeftReason::Removed => "an administrator has removed it",
        LeftReason::Left => "another program has left with its token",
        LeftReason::Gone => "the service has removed it, since it gave no sign",
    };
    Stop::Failed(Failure::new(format!("{own} takes part no longer: {why}")))
}

/// Reads a participant; `None` if it is not in the conference.
pub async fn look_up(
    api: &Api,
    conference: &Name,
    participant: &Name,
) -> Result<Option<Participant>, Stop> {
    match api.participant(conference, participant).await {
        Err(error) if is_not_found(&error) => Ok(None),
        there => Ok(Some(there?)),
    }
}

pub fn is_not_found(error: &ApiError) -> bool {
    matches!(error, ApiError::Refused(problem) if problem.status == 404)
}
