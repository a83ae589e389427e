//! Decides what keeps a publisher's track from a receiver. A leg is a participant's connection by one UDP socket.

use conference_api::{Cause, Name, TrackPath, Transport, Why};
use conference_model::{BindingRecord, Model};

use crate::activity::{Activity, Flow, LegActivity};
use crate::counts::{received, sent};

/// A publisher that sends no media for this long counts as silent. This is longer than the time between two readings of
/// the counters, and longer than the second that a slow picture may take.
pub const SILENT_MS: u64 = 3_000;
/// How long drops count as a cause after the last drop, so that drops that happen only now and then are seen.
const RECENT_MS: u64 = 5_000;

/// The participant and the track that a question is about.
#[derive(Clone, Copy, Debug)]
pub struct Question<'q> {
    pub conference: &'q Name,
    /// The participant who should receive the track.
    pub participant: &'q Name,
    pub path: &'q TrackPath,
}

/// Returns what keeps a participant from receiving a track, if anything does. `now_ms` is in milliseconds since 1970.
#[must_use]
pub fn why(model: &Model, activity: &Activity, now_ms: u64, question: Question<'_>) -> Why {
    let found = Found::new(model, activity, question);
    let causes = causes(&found, now_ms);
    Why {
        participant: question.participant.clone(),
        path: question.path.clone(),
        next: causes.first().map_or("", |it| it.next()).to_owned(),
        causes,
        publisher: found.publisher.map(sent).unwrap_or_default(),
        receiver: found.receiver.map(received).unwrap_or_default(),
    }
}

/// Returns only the causes of the answer that `why` returns.
#[must_use]
pub fn causes_of(
    model: &Model,
    activity: &Activity,
    now_ms: u64,
    question: Question<'_>,
) -> Vec<Cause> {
    causes(&Found::new(model, activity, question), now_ms)
}

/// What was found in the model and in the switch's counts for a question.
struct Found<'f> {
    model: &'f Model,
    activity: &'f Activity,
    question: Question<'f>,
    /// The activity of the publisher's leg.
    publisher: Option<&'f LegActivity>,
    publisher_binding: Option<&'f BindingRecord>,
    /// The activity of the receiver's leg.
    receiver: Option<&'f LegActivity>,
    receiver_binding: Option<&'f BindingRecord>,
    is_subscribed: bool,
}

impl<'f> Found<'f> {
    fn new(model: &'f Model, activity: &'f Activity, question: Question<'f>) -> Found<'f> {
        let of = (question.conference, question.participant);
        let (sends, receives) = model.path_legs(of, question.path);
        let binding = |leg: Option<u16>| model.binding(leg?);
        let participant = model.participant(question.conference, question.participant);
        Found {
            model,
            activity,
            question,
            publisher: sends.and_then(|leg| activity.legs.get(&leg)),
            publisher_binding: binding(sends),
            receiver: receives.and_then(|leg| activity.legs.get(&leg)),
            receiver_binding: binding(receives),
            is_subscribed: participant.is_ok_and(|it| it.subscriptions.contains_key(question.path)),
        }
    }

    fn transport(&self) -> Option<Transport> {
        let track = self
            .model
            .track(self.question.conference, self.question.path);
        track.ok().map(|it| it.transport)
    }
}

fn causes(found: &Found<'_>, now_ms: u64) -> Vec<Cause> {
    let mut causes = Vec::new();
    for cause in Cause::ALL {
        let is_hidden = cause.hidden_by().iter().any(|it| causes.contains(it));
        // A cause may be hidden by a cause that comes later in this order.
        let is_hidden_later = cause
            .hidden_by()
            .iter()
            .any(|it| *it > cause && holds(found, *it, now_ms));
        if !is_hidden && !is_hidden_later && holds(found, cause, now_ms) {
            causes.push(cause);
        }
    }
    causes
}

fn holds(found: &Found<'_>, cause: Cause, now_ms: u64) -> bool {
    let (model, question) = (found.model, found.question);
    match cause {
        Cause::NoPublisher => {
            let publisher = &question.path.participant;
            model.participant(question.conference, publisher).is_err()
        }
        Cause::NotPublished => model.track(question.conference, question.path).is_err(),
        Cause::Muted => {
            let track = model.track(question.conference, question.path);
            track.is_ok_and(|it| it.muted_by.is_some())
        }
        Cause::PublisherNotSignedIn => found.publisher_binding.is_none(),
        Cause::Fragmented => is_fragmented(found, now_ms),
        Cause::PublisherSilent => is_silent(found, now_ms),
        Cause::Policed => found
            .publisher
            .is_some_and(|it| is_recent(&it.policed, now_ms)),
        Cause::NotRtp => is_not_rtp(found),
        Cause::NotSubscribed => !found.is_subscribed,
        Cause::ReceiverNotSignedIn => found.receiver_binding.is_none(),
        Cause::SwitchAway => !found.activity.is_connected,
        Cause::NotWritten => is_not_written(found),
        Cause::PortDown => port(found).is_some_and(|it| it.is_down),
        Cause::TooLong => port_drops(found, "tx_too_long", now_ms),
        Cause::NoRoom => port_drops(found, "tx_no_room", now_ms),
        Cause::NoRoute => port_drops(found, "tx_unreachable", now_ms),
        Cause::DeviceRefused => port_drops(found, "tx_refused", now_ms),
    }
}

fn is_silent(found: &Found<'_>, now_ms: u64) -> bool {
    let (Some(leg), Some(read_ms)) = (found.publisher, found.activity.read_steady_ms) else {
        return false;
    };
    // A leg whose counters we have read for less time than `SILENT_MS` may have sent before.
    let is_known = read_ms.saturating_sub(leg.since_ms) >= SILENT_MS;
    let is_quiet = |last_ms: u64| now_ms.saturating_sub(last_ms) > SILENT_MS;
    is_known && leg.last_media_ms.is_none_or(is_quiet)
}

/// Whether the publisher sends only IP fragments, as far as can be known. The switch counts the fragments of all
/// senders together. This function takes them for this publisher's if nothing else comes from the publisher.
fn is_fragmented(found: &Found<'_>, now_ms: u64) -> bool {
    let fragments = found.activity.verdicts.get("drop_fragment");
    is_silent(found, now_ms) && fragments.is_some_and(|it| is_recent(it, now_ms))
}

/// Whether the publisher sends something that is no RTP, as far as can be known. The switch counts such packets for all
/// legs together. This function takes them for this leg's if the leg sends, the receiver gets nothing at all, and at
/// least as many packets were dropped as the leg has sent.
fn is_not_rtp(found: &Found<'_>) -> bool {
    let (Some(publisher), Some(receiver)) = (found.publisher, found.receiver) else {
        return false;
    };
    let dropped = found.activity.verdicts.get("drop_not_rtp");
    let dropped = dropped.map_or(0, |it| it.increase.packets);
    // The leg may also have sent hellos (the messages with which sockets sign in) in between, which are not dropped.
    let sent = publisher.sent.increase.packets.saturating_sub(2);
    found.transport() == Some(Transport::Rtp)
        && publisher.policed.increase.packets == 0
        && receiver.received.increase.packets == 0
        && dropped > 0
        && dropped >= sent
}

/// Whether the publisher's or the receiver's leg is signed in, but was in neither of the switch's tables (`sockets` and
/// `receivers`) at the last reading of the counters.
fn is_not_written(found: &Found<'_>) -> bool {
    let lacks = |binding: Option<&BindingRecord>, leg: Option<&LegActivity>| {
        binding.is_some() && leg.is_none()
    };
    found.activity.read_steady_ms.is_some()
        && (lacks(found.publisher_binding, found.publisher)
            || lacks(found.receiver_binding, found.receiver))
}

fn port<'f>(found: &Found<'f>) -> Option<&'f crate::activity::PortActivity> {
    found.activity.ports.get(&found.receiver_binding?.port)
}

fn port_drops(found: &Found<'_>, reason: &str, now_ms: u64) -> bool {
    let drops = port(found).and_then(|it| it.drops.get(reason));
    drops.is_some_and(|it| is_recent(it, now_ms))
}

fn is_recent(flow: &Flow, now_ms: u64) -> bool {
    flow.last_ms
        .is_some_and(|last_ms| now_ms.saturating_sub(last_ms) <= RECENT_MS)
}

#[cfg(test)]
#[expect(clippy::too_many_lines, reason = "a function is a list of cases")]
mod tests {
    use std::collections::BTreeMap;
    use std::net::IpAddr;

    use conference_api::{MutedBy, QualitySpec, TrackKind, TrackSpec};
    use conference_model::{Outside, Request};
    use p4runtime_client::objects::Count;

    use super::*;
    use crate::activity::{PortReading, Reading};
    use crate::sign_in::Clocks;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    fn camera() -> TrackPath {
        TrackPath {
            participant: name("ann"),
            track: name("cam"),
        }
    }

    /// The input of one test case.
    struct Case {
        model: Model,
        reading: Reading,
        /// How many packets and bytes the publisher sends in each later second.
        sends: Count,
        red: u64,
        receives: u64,
        not_rtp: u64,
        fragments: u64,
        is_away: bool,
        drops: BTreeMap<String, u64>,
    }

    impl Case {
        /// Makes a case in which Ann publishes a camera, Bob receives it, and nothing is wrong.
        fn new() -> Case {
            let mut case = Case {
                model: Model::default(),
                reading: Reading::default(),
                sends: Count {
                    packets: 50,
                    bytes: 50_000,
                },
                red: 0,
                receives: 50,
                not_rtp: 0,
                fragments: 0,
                is_away: false,
                drops: BTreeMap::new(),
            };
            case.ask(Request::PutConference {
                conference: name("c"),
                spec: Default::default(),
            });
            for participant in ["ann", "bob"] {
                case.ask(Request::PutParticipant {
                    conference: name("c"),
                    participant: name(participant),
                    spec: Default::default(),
                    expires_ms: u64::MAX,
                });
            }
            case.ask(Request::PutTrack {
                conference: name("c"),
                path: camera(),
                spec: TrackSpec {
                    kind: TrackKind::Video,
                    transport: Transport::Rtp,
                    qualities: vec![QualitySpec {
                        name: name("one"),
                        max_kbps: 1_000,
                        leg: None,
                    }],
                    sdp: String::new(),
                },
            });
            case.ask(Request::PutSubscription {
                conference: name("c"),
                participant: name("bob"),
                path: camera(),
                spec: Default::default(),
            });
            for (leg, port) in [(1, 1), (2, 2)] {
                case.ask(Request::SignIn {
                    leg,
                    binding: BindingRecord {
                        port,
                        mac: [2; 6],
                        address: IpAddr::from([10, 0, 0, 1]),
                        udp_port: leg,
                        own_mac: [4; 6],
                        own_address: IpAddr::from([10, 0, 0, 9]),
                    },
                });
            }
            for leg in [1, 2] {
                let key = [leg.into(), 0, 0, 0];
                let counts = (key, Count::default(), Count::default());
                case.reading.sockets.insert(leg, counts);
                case.reading.receivers.insert(leg, Count::default());
            }
            case.reading.ports.insert(1, PortReading::default());
            case.reading.ports.insert(2, PortReading::default());
            case
        }

        fn ask(&mut self, request: Request) {
            let mut new_key = || [1; 32];
            let mut outside = Outside {
                now_ms: 0,
                new_key: &mut new_key,
            };
            let change = self.model.plan(&request, &mut outside).expect("it can be");
            self.model.apply(&change);
        }

        fn mute(&mut self) {
            self.ask(Request::Mute {
                conference: name("c"),
                path: camera(),
                muted: true,
                by: MutedBy::Publisher,
            });
        }

        /// Returns the answer after six readings, one each second.
        fn why(&self) -> Why {
            let mut activity = Activity::default();
            let mut reading = self.reading.clone();
            for s in 0..6 {
                let clocks = Clocks {
                    steady_ms: s * 1_000,
                    wall_ms: 10_000 + s * 1_000,
                };
                activity = activity.next(&reading, clocks);
                if let Some((_, sent, red)) = reading.sockets.get_mut(&1) {
                    sent.packets += self.sends.packets;
                    sent.bytes += self.sends.bytes;
                    red.packets += self.red;
                }
                if let Some(received) = reading.receivers.get_mut(&2) {
                    received.packets += self.receives;
                }
                let not_rtp = reading.verdicts.entry("drop_not_rtp".to_owned());
                not_rtp.or_default().packets += self.not_rtp;
                let fragments = reading.verdicts.entry("drop_fragment".to_owned());
                fragments.or_default().packets += self.fragments;
                if let Some(port) = reading.ports.get_mut(&2) {
                    for (reason, n) in &self.drops {
                        *port.drops.entry(reason.clone()).or_default() += n;
                    }
                }
            }
            if self.is_away {
                activity = activity.away();
            }
            let question = Question {
                conference: &name("c"),
                participant: &name("bob"),
                path: &camera(),
            };
            why(&self.model, &activity, 15_000, question)
        }
    }

    fn drops(reason: &'static str) -> impl Fn(&mut Case) {
        move |case| {
            case.drops.insert(reason.to_owned(), 3);
        }
    }

    #[test]
    fn what_is_forwarded_has_no_cause_and_its_rates() {
        let why = Case::new().why();
        assert_eq!((why.causes.as_slice(), why.next.as_str()), (&[][..], ""));
        let publisher = why.publisher;
        assert_eq!((publisher.packets, publisher.packets_per_s), (250, 50));
        assert_eq!(
            (publisher.kbps, publisher.last_packet_ms),
            (400, Some(15_000))
        );
        assert_eq!((why.receiver.packets, why.receiver.kbps), (250, 0));
    }

    #[test]
    fn each_cause_is_found_and_no_other_with_it() {
        type Change = Box<dyn Fn(&mut Case)>;
        let hello = Count {
            packets: 1,
            bytes: 108,
        };
        let cases: [(Cause, Change); 17] = [
            (
                Cause::NoPublisher,
                Box::new(|case| {
                    case.ask(Request::DeleteParticipant {
                        conference: name("c"),
                        participant: name("ann"),
                        reason: conference_api::LeftReason::Left,
                    });
                }),
            ),
            (
                Cause::NotPublished,
                Box::new(|case| {
                    case.ask(Request::DeleteTrack {
                        conference: name("c"),
                        path: camera(),
                    });
                }),
            ),
            (Cause::Muted, Box::new(Case::mute)),
            (
                Cause::PublisherNotSignedIn,
                Box::new(|case| {
                    case.ask(Request::SignOut {
                        leg: 1,
                        socket: None,
                    })
                }),
            ),
            (
                Cause::Fragmented,
                Box::new(move |case| (case.sends, case.fragments) = (hello, 30)),
            ),
            (
                Cause::PublisherSilent,
                Box::new(move |case| case.sends = hello),
            ),
            (Cause::Policed, Box::new(|case| case.red = 5)),
            (
                Cause::NotRtp,
                Box::new(|case| (case.not_rtp, case.receives) = (49, 0)),
            ),
            (
                Cause::NotSubscribed,
                Box::new(|case| {
                    case.ask(Request::DeleteSubscription {
                        conference: name("c"),
                        participant: name("bob"),
                        path: camera(),
                    });
                }),
            ),
            (
                Cause::ReceiverNotSignedIn,
                Box::new(|case| {
                    case.ask(Request::SignOut {
                        leg: 2,
                        socket: None,
                    })
                }),
            ),
            (Cause::SwitchAway, Box::new(|case| case.is_away = true)),
            (
                Cause::NotWritten,
                Box::new(|case| {
                    case.reading.sockets.remove(&2);
                    case.reading.receivers.remove(&2);
                }),
            ),
            (
                Cause::PortDown,
                Box::new(|case| {
                    let port = case.reading.ports.get_mut(&2).expect("it is there");
                    port.is_down = true;
                }),
            ),
            (Cause::TooLong, Box::new(drops("tx_too_long"))),
            (Cause::NoRoom, Box::new(drops("tx_no_room"))),
            (Cause::NoRoute, Box::new(drops("tx_unreachable"))),
            (Cause::DeviceRefused, Box::new(drops("tx_refused"))),
        ];
        let covered: Vec<Cause> = cases.iter().map(|(cause, _)| *cause).collect();
        assert_eq!(covered, Cause::ALL);
        for (cause, change) in cases {
            let mut case = Case::new();
            change(&mut case);
            let why = case.why();
            assert_eq!(why.causes, [cause]);
            assert_eq!(why.next, cause.next());
        }
    }

    #[test]
    fn causes_come_in_their_order() {
        let mut case = Case::new();
        case.mute();
        case.red = 5;
        case.ask(Request::SignOut {
            leg: 2,
            socket: None,
        });
        assert_eq!(
            case.why().causes,
            [Cause::Muted, Cause::Policed, Cause::ReceiverNotSignedIn]
        );
        // The receiver gets media, so the non-RTP packets that the switch dropped may come from another leg.
        let mut case = Case::new();
        case.not_rtp = 49;
        assert_eq!(case.why().causes, []);
    }
}
