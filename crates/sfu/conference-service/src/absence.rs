//! Finds participants that are gone: for some time they have had no signed-in socket and no event stream, and no
//! request has come with their token.

use std::collections::BTreeMap;
use std::time::Duration;

use conference_api::{LeftReason, Name};
use conference_model::{Model, ParticipantRecord, Request};
use tokio::time::Instant;

use crate::presence::Presence;

/// If more time than this lies between two calls of `Absence::look`, this process was stopped or got too little CPU
/// time, and may have missed participants' signs of life.
const LOOKS_APART_MAX: Duration = Duration::from_secs(5);

/// When each participant was last seen.
#[derive(Debug)]
pub struct Absence {
    gone: Duration,
    seen: BTreeMap<Name, BTreeMap<Name, Instant>>,
    last_look: Option<Instant>,
}

impl Absence {
    /// Makes an `Absence` for which a participant is gone after this time without a sign of life.
    #[must_use]
    pub fn new(gone: Duration) -> Absence {
        Absence {
            gone,
            seen: BTreeMap::new(),
            last_look: None,
        }
    }

    /// Checks all participants. Returns requests that remove those that are gone. `is_whole` says whether the switch
    /// has the entries that it must have. While the switch is away, hosts cannot sign in, so no participant's silence
    /// counts.
    pub fn look(
        &mut self,
        model: &Model,
        presence: &Presence,
        is_whole: bool,
        now: Instant,
    ) -> Vec<Request> {
        let before = self.last_look.replace(now);
        let is_late = before.is_none_or(|before| now - before > LOOKS_APART_MAX);
        let requests = presence.take_requests();
        let mut seen: BTreeMap<Name, BTreeMap<Name, Instant>> = BTreeMap::new();
        let mut gone = Vec::new();
        for (conference, _) in model.conferences() {
            let Ok(participants) = model.participants(conference) else {
                continue;
            };
            let old = self.seen.remove(conference);
            let mut of_this = old.unwrap_or_default();
            of_this.retain(|participant, _| participants.contains_key(participant));
            for (participant, record) in participants {
                let is_there = is_late
                    || !is_whole
                    || is_bound(model, record)
                    || presence.has_stream(conference, participant);
                let asked = requests.get(conference).and_then(|it| it.get(participant));
                let known = of_this.get(participant).copied();
                let last = if is_there {
                    now
                } else {
                    // A participant that was never checked before counts as seen now.
                    known.max(asked.copied()).unwrap_or(now)
                };
                if now.saturating_duration_since(last) >= self.gone {
                    gone.push(Request::DeleteParticipant {
                        conference: conference.clone(),
                        participant: participant.clone(),
                        reason: LeftReason::Gone,
                    });
                }
                if known != Some(last) {
                    of_this.insert(participant.clone(), last);
                }
            }
            seen.insert(conference.clone(), of_this);
        }
        self.seen = seen;
        gone
    }
}

fn is_bound(model: &Model, record: &ParticipantRecord) -> bool {
    let mut legs = record.legs.values();
    legs.any(|leg| model.binding(leg.number).is_some())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use conference_api::TrackPath;
    use conference_model::{BindingRecord, Outside};

    use super::*;

    struct Scene {
        model: Model,
        presence: Presence,
        absence: Absence,
        now: Instant,
    }

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    impl Scene {
        fn new() -> Scene {
            let mut scene = Scene {
                model: Model::default(),
                presence: Presence::default(),
                absence: Absence::new(Duration::from_secs(60)),
                now: Instant::now(),
            };
            scene.ask(&Request::PutConference {
                conference: name("c"),
                spec: Default::default(),
            });
            for who in ["ann", "bob"] {
                scene.ask(&Request::PutParticipant {
                    conference: name("c"),
                    participant: name(who),
                    spec: Default::default(),
                    expires_ms: u64::MAX,
                });
            }
            scene
        }

        fn ask(&mut self, request: &Request) {
            let mut new_key = || [1; 32];
            let mut outside = Outside {
                now_ms: 0,
                new_key: &mut new_key,
            };
            let change = self.model.plan(request, &mut outside).expect("it can be");
            self.model.apply(&change);
        }

        fn sign_in_ann(&mut self) {
            let path = TrackPath {
                participant: name("ann"),
                track: name("cam"),
            };
            let spec = serde_json::from_str(
                r#"{"kind":"video","qualities":[{"name":"one","max_kbps":1}]}"#,
            );
            self.ask(&Request::PutTrack {
                conference: name("c"),
                path,
                spec: spec.expect("a track"),
            });
            self.ask(&Request::SignIn {
                leg: 1,
                binding: BindingRecord {
                    port: 1,
                    mac: [2; 6],
                    address: IpAddr::from([10, 0, 0, 1]),
                    udp_port: 1,
                    own_mac: [4; 6],
                    own_address: IpAddr::from([10, 0, 0, 9]),
                },
            });
        }

        /// Lets this many seconds pass, and checks the participants once a second.
        fn pass(&mut self, seconds: u64, is_whole: bool) -> Vec<Request> {
            let mut gone = Vec::new();
            for _ in 0..seconds {
                self.now += Duration::from_secs(1);
                let (model, presence) = (&self.model, &self.presence);
                gone.extend(self.absence.look(model, presence, is_whole, self.now));
            }
            gone
        }

        fn gone(participant: &str) -> Request {
            Request::DeleteParticipant {
                conference: name("c"),
                participant: name(participant),
                reason: LeftReason::Gone,
            }
        }
    }

    #[test]
    fn who_has_no_socket_no_stream_and_no_request_is_gone_after_the_time_and_nobody_else() {
        let mut scene = Scene::new();
        scene.sign_in_ann();
        assert_eq!(scene.pass(60, true), []);
        assert_eq!(scene.pass(1, true), [Scene::gone("bob")]);
        let mut scene = Scene::new();
        let stream = scene.presence.stream(&name("c"), Some(&name("ann")));
        assert_eq!(scene.pass(50, true), []);
        scene.presence.request(&name("c"), &name("bob"), scene.now);
        assert_eq!(scene.pass(59, true), []);
        drop(stream);
        assert_eq!(scene.pass(1, true), [Scene::gone("bob")]);
    }

    #[test]
    fn the_silence_does_not_count_while_the_switch_is_away_or_this_process_was_stopped() {
        let mut scene = Scene::new();
        assert_eq!(scene.pass(50, true), []);
        assert_eq!(scene.pass(100, false), []);
        assert_eq!(scene.pass(59, true), []);
        scene.now += Duration::from_secs(120);
        assert_eq!(scene.pass(60, true), []);
        assert_eq!(scene.pass(1, true).len(), 2);
    }

    #[test]
    fn who_signs_in_while_its_removal_waits_stays() {
        let mut scene = Scene::new();
        scene.sign_in_ann();
        scene.ask(&Scene::gone("ann"));
        assert!(scene.model.participant(&name("c"), &name("ann")).is_ok());
        scene.ask(&Request::SignOut {
            leg: 1,
            socket: None,
        });
        scene.ask(&Scene::gone("ann"));
        assert!(scene.model.participant(&name("c"), &name("ann")).is_err());
    }
}
