//! Sends a participant an event when the causes change that keep a track from this participant. Compares the causes
//! once a second, in conferences that have open event streams.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use conference_api::{Cause, EventKind, Name, TrackPath};
use conference_model::Model;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::activity::Activity;
use crate::core::{Core, now_ms};
use crate::presence::Presence;
use crate::why::{Question, causes_of, why};

/// How often causes are compared: as often as the switch is read.
const LOOK: Duration = Duration::from_secs(1);
/// How many subscriptions are compared at one look, the check that is made once a second. A look always compares all
/// subscriptions of its last participant, so there may be some more. The work takes some 10 ms. The next look goes on
/// with the other subscriptions.
const SUBSCRIPTIONS_PER_LOOK: usize = 20_000;
/// The most events that one look sends. When a switch goes away, the causes of every subscription change, and the
/// queues of readers hold only some thousand events.
const EVENTS_PER_LOOK: usize = 500;

/// Compares causes once a second, for ever.
pub async fn run(core: Core, activity: watch::Receiver<Arc<Activity>>, presence: Presence) {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut watcher = Watcher::default();
    loop {
        looks.tick().await;
        let activity = Arc::clone(&activity.borrow());
        let watched = presence.watched();
        let events = {
            let model = core.model().await;
            watcher.look(&model, &activity, &watched, now_ms())
        };
        for (conference, event) in events {
            core.tell(conference, event);
        }
    }
}

/// The causes of one subscription, at two times.
#[derive(Debug, Default)]
struct Known {
    /// The causes that the last event reported; empty before the first event.
    told: Vec<Cause>,
    /// The causes that the last look found. An event reports them only if the next look finds them, too. For example, a
    /// socket that has just signed in is not in the counts yet, but will be at the next reading of the switch.
    found: Vec<Cause>,
}

type OfParticipant = BTreeMap<TrackPath, Known>;

/// The causes that are known of the subscriptions in conferences with open event streams.
#[derive(Debug, Default)]
struct Watcher {
    known: BTreeMap<Name, BTreeMap<Name, OfParticipant>>,
    /// Conferences of which every participant has been compared at least once.
    complete: BTreeSet<Name>,
    /// The participant after whom the next look goes on.
    after: Option<(Name, Name)>,
}

impl Watcher {
    fn look(
        &mut self,
        model: &Model,
        activity: &Activity,
        watched: &[Name],
        now_ms: u64,
    ) -> Vec<(Name, EventKind)> {
        self.forget(model, watched);
        let mut events = Vec::new();
        let mut n_left = SUBSCRIPTIONS_PER_LOOK;
        let start = self.after.take();
        // The look goes from where the last look stopped to the end, then from the beginning to where the last look
        // stopped.
        let order = [(start.as_ref(), None), (None, start.as_ref())];
        for (after, until) in order {
            for conference in watched {
                let Ok(participants) = model.participants(conference) else {
                    continue;
                };
                for participant in participants.keys() {
                    let place = (conference, participant);
                    let key = |it: &(Name, Name)| place <= (&it.0, &it.1);
                    if after.is_some_and(key) || until.is_some_and(|it| !key(it)) {
                        continue;
                    }
                    if n_left == 0 || events.len() >= EVENTS_PER_LOOK {
                        return events;
                    }
                    let n = self.participant(model, activity, place, now_ms, &mut events);
                    n_left = n_left.saturating_sub(n);
                    self.after = Some((conference.clone(), participant.clone()));
                }
                // A conference that comes before the start is checked in the second round only.
                if after.is_none_or(|(start, _)| conference >= start) {
                    self.complete.insert(conference.clone());
                }
            }
            if start.is_none() {
                break;
            }
        }
        self.after = None;
        events
    }

    /// Forgets conferences and participants that are no longer there or not watched any more.
    fn forget(&mut self, model: &Model, watched: &[Name]) {
        self.known.retain(|conference, participants| {
            let Ok(there) = model.participants(conference) else {
                return false;
            };
            participants.retain(|participant, _| there.contains_key(participant));
            watched.binary_search(conference).is_ok()
        });
        let known = &self.known;
        self.complete.retain(|it| known.contains_key(it));
    }

    /// Compares the causes of a participant's subscriptions. Returns how many subscriptions it has compared.
    fn participant(
        &mut self,
        model: &Model,
        activity: &Activity,
        (conference, participant): (&Name, &Name),
        now_ms: u64,
        events: &mut Vec<(Name, EventKind)>,
    ) -> usize {
        let Ok(record) = model.participant(conference, participant) else {
            return 0;
        };
        // Whoever begins to watch a conference reads the present causes. So events report only later changes.
        let is_first = !self.complete.contains(conference);
        let known = self.known.entry(conference.clone()).or_default();
        let known = known.entry(participant.clone()).or_default();
        known.retain(|path, _| record.subscriptions.contains_key(path));
        for path in record.subscriptions.keys() {
            let question = Question {
                conference,
                participant,
                path,
            };
            let causes = causes_of(model, activity, now_ms, question);
            let known = known.entry(path.clone()).or_default();
            if is_first {
                known.told.clone_from(&causes);
            } else if causes != known.told && causes == known.found {
                known.told.clone_from(&causes);
                let event = EventKind::WhyNot {
                    participant: participant.clone(),
                    path: path.clone(),
                    why: why(model, activity, now_ms, question),
                };
                events.push((conference.clone(), event));
            }
            known.found = causes;
        }
        record.subscriptions.len()
    }
}

#[cfg(test)]
mod tests {
    use conference_api::LeftReason;
    use conference_model::{Outside, Request};

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    fn ask(model: &mut Model, request: &Request) {
        let mut new_key = || [1; 32];
        let mut outside = Outside {
            now_ms: 0,
            new_key: &mut new_key,
        };
        let change = model.plan(request, &mut outside).expect("it can be");
        model.apply(&change);
    }

    fn path() -> TrackPath {
        TrackPath {
            participant: name("ann"),
            track: name("cam"),
        }
    }

    /// Makes a model in which Ann publishes and `n` others receive.
    fn conference(n: usize) -> Model {
        let mut model = Model::default();
        ask(
            &mut model,
            &Request::PutConference {
                conference: name("c"),
                spec: Default::default(),
            },
        );
        for who in std::iter::once("ann".to_owned()).chain((0..n).map(|it| format!("r{it:05}"))) {
            ask(
                &mut model,
                &Request::PutParticipant {
                    conference: name("c"),
                    participant: name(&who),
                    spec: Default::default(),
                    expires_ms: u64::MAX,
                },
            );
        }
        let spec =
            serde_json::from_str(r#"{"kind":"video","qualities":[{"name":"one","max_kbps":1}]}"#);
        ask(
            &mut model,
            &Request::PutTrack {
                conference: name("c"),
                path: path(),
                spec: spec.expect("a track"),
            },
        );
        for it in 0..n {
            subscribe(&mut model, &format!("r{it:05}"));
        }
        model
    }

    fn subscribe(model: &mut Model, who: &str) {
        ask(
            model,
            &Request::PutSubscription {
                conference: name("c"),
                participant: name(who),
                path: path(),
                spec: Default::default(),
            },
        );
    }

    fn causes(events: &[(Name, EventKind)]) -> Vec<(&Name, Vec<Cause>)> {
        let events = events.iter().map(|(_, event)| match event {
            EventKind::WhyNot {
                participant, why, ..
            } => (participant, why.causes.clone()),
            other => unreachable!("{other:?}"),
        });
        events.collect()
    }

    #[test]
    fn a_change_that_two_looks_find_is_told_once_and_what_was_there_at_first_is_not() {
        let mut model = conference(1);
        let activity = Activity {
            is_connected: true,
            ..Activity::default()
        };
        let mut watcher = Watcher::default();
        let watched = [name("c")];
        for _ in 0..3 {
            assert_eq!(watcher.look(&model, &activity, &watched, 0), []);
        }
        ask(
            &mut model,
            &Request::DeleteParticipant {
                conference: name("c"),
                participant: name("ann"),
                reason: LeftReason::Left,
            },
        );
        assert_eq!(watcher.look(&model, &activity, &watched, 0), []);
        let events = watcher.look(&model, &activity, &watched, 0);
        let expected = vec![Cause::NoPublisher, Cause::ReceiverNotSignedIn];
        assert_eq!(causes(&events), [(&name("r00000"), expected)]);
        assert_eq!(watcher.look(&model, &activity, &watched, 0), []);
        // Without an open event stream the watcher keeps nothing.
        assert_eq!(watcher.look(&model, &activity, &[], 0), []);
        assert!(watcher.known.is_empty() && watcher.complete.is_empty());
    }

    #[test]
    fn many_changes_are_told_over_several_looks_and_all_of_them() {
        let mut model = conference(1_200);
        let activity = Activity {
            is_connected: true,
            ..Activity::default()
        };
        let mut watcher = Watcher::default();
        let watched = [name("c")];
        watcher.look(&model, &activity, &watched, 0);
        ask(
            &mut model,
            &Request::DeleteTrack {
                conference: name("c"),
                path: path(),
            },
        );
        let mut told = BTreeSet::new();
        for _ in 0..8 {
            let events = watcher.look(&model, &activity, &watched, 0);
            assert!(events.len() <= EVENTS_PER_LOOK);
            for (participant, _) in causes(&events) {
                assert!(told.insert(participant.clone()), "{participant} twice");
            }
        }
        assert_eq!(told.len(), 1_200);
    }
}
