use std::collections::{BTreeMap, BTreeSet};

use conference_api::{
    ConferenceSpec, EventKind, LeftReason, MutedBy, Name, ParticipantSpec, QualitySpec,
    SubscriptionSpec, TrackKind, TrackPath, TrackSpec, Transport,
};
use fastrand::Rng;

use super::*;

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn path(participant: &str, track: &str) -> TrackPath {
    TrackPath {
        participant: name(participant),
        track: name(track),
    }
}

fn quality(text: &str, kbps: u32) -> QualitySpec {
    QualitySpec {
        name: name(text),
        max_kbps: kbps,
        leg: None,
    }
}

fn video() -> TrackSpec {
    TrackSpec {
        kind: TrackKind::Video,
        transport: Transport::Rtp,
        qualities: vec![quality("high", 2_000), quality("low", 200)],
        sdp: String::new(),
    }
}

fn binding(port: u16, host: u8, udp_port: u16) -> BindingRecord {
    BindingRecord {
        port,
        mac: [2, 0, 0, 0, 0, host],
        address: [10, 0, 0, host].into(),
        udp_port,
        own_mac: [2, 0, 0, 0, 1, 0],
        own_address: [10, 0, 0, 254].into(),
    }
}

/// A model, and keys that count up.
#[derive(Default)]
struct World {
    model: Model,
    n_keys: u8,
}

impl World {
    fn plan(&mut self, request: &Request) -> Result<Change, Refusal> {
        let n_keys = &mut self.n_keys;
        let mut new_key = || {
            *n_keys = n_keys.wrapping_add(1);
            [*n_keys; hello::KEY_LEN]
        };
        self.model.plan(
            request,
            &mut Outside {
                now_ms: 1_000,
                new_key: &mut new_key,
            },
        )
    }

    /// Makes a request, applies the change, and returns the events.
    fn done(&mut self, request: &Request) -> Vec<EventKind> {
        let change = self.plan(request).expect("no refusal");
        self.model.apply(&change);
        change.events.into_iter().map(|(_, event)| event).collect()
    }

    fn join(&mut self, participant: &str) {
        self.done(&Request::PutConference {
            conference: name("c"),
            spec: ConferenceSpec::default(),
        });
        self.done(&Request::PutParticipant {
            conference: name("c"),
            participant: name(participant),
            spec: ParticipantSpec::default(),
            expires_ms: 9_000,
        });
    }

    fn publish(&mut self, participant: &str, track: &str, spec: TrackSpec) {
        self.done(&Request::PutTrack {
            conference: name("c"),
            path: path(participant, track),
            spec,
        });
    }

    fn subscribe(&mut self, participant: &str, to: TrackPath, quality: Option<&str>) {
        self.done(&Request::PutSubscription {
            conference: name("c"),
            participant: name(participant),
            path: to,
            spec: SubscriptionSpec {
                quality: quality.map(name),
                leg: None,
            },
        });
    }

    fn leg(&self, participant: &str, leg: &str) -> u16 {
        let record = self.model.participant(&name("c"), &name(participant));
        record.expect("it is there").legs[&name(leg)].number
    }

    fn sign_in(&mut self, leg: u16, binding: BindingRecord) {
        self.done(&Request::SignIn { leg, binding });
    }
}

/// Makes a world in which Ann publishes a picture in two qualities, Bob and Cid receive it, and all are signed in.
fn three() -> World {
    let mut world = World::default();
    for participant in ["ann", "bob", "cid"] {
        world.join(participant);
    }
    world.publish("ann", "cam", video());
    world.subscribe("bob", path("ann", "cam"), None);
    world.subscribe("cid", path("ann", "cam"), Some("low"));
    let legs = [
        ("ann", "cam.high"),
        ("ann", "cam.low"),
        ("bob", "ann.cam"),
        ("cid", "ann.cam"),
    ];
    for (idx, (participant, leg)) in legs.into_iter().enumerate() {
        let number = world.leg(participant, leg);
        let idx = u8::try_from(idx).expect("few");
        world.sign_in(number, binding(u16::from(idx) + 1, idx, 5_000));
    }
    world
}

#[test]
fn media_goes_to_those_who_chose_the_quality_and_reports_go_back() {
    let mut world = three();
    let [high, low] = ["cam.high", "cam.low"].map(|leg| world.leg("ann", leg));
    let [bob, cid] = ["bob", "cid"].map(|one| world.leg(one, "ann.cam"));
    let entries = world.model.entries(high);
    assert_eq!(entries.media, [(3, bob)]);
    assert_eq!(entries.reports, []);
    let socket = entries.socket.expect("signed in");
    assert_eq!((socket.media_group, socket.report_group), (high, high));
    assert_eq!((socket.max_kbps, socket.is_rtp), (2_000, true));
    assert_eq!(world.model.entries(low).media, [(4, cid)]);
    let entries = world.model.entries(bob);
    assert_eq!(entries.media, []);
    assert_eq!(entries.reports, [(1, high)]);
    let socket = entries.socket.expect("signed in");
    assert_eq!((socket.media_group, socket.report_group), (0, 0x8000 | bob));

    // Bob chooses another quality: both groups change, and Bob's reports go to the other leg.
    world.subscribe("bob", path("ann", "cam"), Some("low"));
    assert_eq!(world.model.entries(high).media, []);
    assert_eq!(world.model.entries(low).media, [(3, bob), (4, cid)]);
    assert_eq!(world.model.entries(bob).reports, [(2, low)]);
}

#[test]
fn nobody_receives_a_muted_track_and_only_administrators_unmute_what_they_muted() {
    let mut world = three();
    let low = world.leg("ann", "cam.low");
    let mute = |muted, by| Request::Mute {
        conference: name("c"),
        path: path("ann", "cam"),
        muted,
        by,
    };
    assert_eq!(world.done(&mute(true, MutedBy::Administrator)).len(), 1);
    let socket = world.model.entries(low).socket.expect("signed in");
    assert_eq!((socket.media_group, socket.report_group), (0, 0));
    assert_eq!(world.model.entries(world.leg("cid", "ann.cam")).reports, []);
    assert_eq!(world.done(&mute(true, MutedBy::Publisher)), []);
    let refused = world.plan(&mute(false, MutedBy::Publisher));
    assert_eq!(
        refused,
        Err(Refusal::MutedByAdministrator(path("ann", "cam")))
    );
    world.done(&mute(false, MutedBy::Administrator));
    assert_eq!(world.model.entries(low).media.len(), 1);
    world.done(&mute(true, MutedBy::Publisher));
    world.done(&mute(false, MutedBy::Publisher));
    assert_eq!(world.model.entries(low).media.len(), 1);
}

#[test]
fn a_sign_out_is_of_the_socket_that_is_meant() {
    let mut world = three();
    let leg = world.leg("ann", "cam.low");
    let was = *world.model.binding(leg).expect("signed in");
    world.sign_in(leg, binding(2, 77, 5_000));
    let silent = Request::SignOut {
        leg,
        socket: Some(was),
    };
    assert_eq!(world.done(&silent), []);
    assert!(world.model.binding(leg).is_some());
    let socket = None;
    assert_eq!(world.done(&Request::SignOut { leg, socket }).len(), 1);
    assert!(world.model.binding(leg).is_none());
}

#[test]
fn one_socket_sends_and_receives() {
    let mut world = World::default();
    let sound = TrackSpec {
        kind: TrackKind::Audio,
        transport: Transport::Datagram,
        qualities: vec![QualitySpec {
            leg: Some(name("jack")),
            ..quality("one", 1_000)
        }],
        sdp: String::new(),
    };
    for (one, other) in [("ann", "bob"), ("bob", "ann")] {
        world.join(one);
        world.publish(one, "sound", sound.clone());
        if world.model.participant(&name("c"), &name(other)).is_err() {
            continue;
        }
        for (who, from) in [(one, other), (other, one)] {
            world.done(&Request::PutSubscription {
                conference: name("c"),
                participant: name(who),
                path: path(from, "sound"),
                spec: SubscriptionSpec {
                    quality: None,
                    leg: Some(name("jack")),
                },
            });
        }
    }
    let legs = ["ann", "bob"].map(|one| world.leg(one, "jack"));
    for (idx, leg) in legs.into_iter().enumerate() {
        world.sign_in(leg, binding(1, u8::try_from(idx).expect("few"), 4_464));
    }
    for (leg, other) in [(legs[0], legs[1]), (legs[1], legs[0])] {
        let entries = world.model.entries(leg);
        assert_eq!(entries.media, [(1, other)]);
        assert_eq!(entries.reports, []);
        let socket = entries.socket.expect("signed in");
        assert_eq!((socket.is_rtp, socket.priority), (false, 6));
    }
}

#[test]
fn a_socket_is_signed_in_to_one_leg_and_a_leg_has_one_socket() {
    let mut world = three();
    let [bob, cid] = ["bob", "cid"].map(|one| world.leg(one, "ann.cam"));
    let of_bob = *world.model.binding(bob).expect("signed in");
    world.sign_in(cid, of_bob);
    assert_eq!(world.model.binding(bob), None);
    assert_eq!(world.model.leg_of_socket(&of_bob), Some(cid));
    assert_eq!(world.model.entries(bob), LegEntries::default());
    // Cid signs in from another address.
    let moved = binding(7, 77, 7_777);
    world.sign_in(cid, moved);
    assert_eq!(world.model.leg_of_socket(&of_bob), None);
    assert_eq!(
        world.model.entries(world.leg("ann", "cam.low")).media,
        [(7, cid)]
    );
    let unknown = Request::SignIn {
        leg: 999,
        binding: moved,
    };
    assert_eq!(world.plan(&unknown), Err(Refusal::NoLeg(999)));
}

#[test]
fn who_leaves_takes_legs_and_sockets_along_and_may_come_again() {
    let mut world = three();
    let of_ann: Vec<u16> = ["cam.high", "cam.low"]
        .map(|leg| world.leg("ann", leg))
        .into();
    let bob = world.leg("bob", "ann.cam");
    let events = world.done(&Request::DeleteParticipant {
        conference: name("c"),
        participant: name("ann"),
        reason: LeftReason::Left,
    });
    assert_eq!(events.len(), 2, "{events:?}");
    for leg in of_ann.clone() {
        assert_eq!(
            (world.model.leg(leg), world.model.binding(leg)),
            (None, None)
        );
    }
    assert_eq!(world.model.entries(bob).reports, []);
    world.join("ann");
    world.publish("ann", "cam", video());
    let high = world.leg("ann", "cam.high");
    assert!(
        !of_ann.contains(&high),
        "a number is not given again at once"
    );
    world.sign_in(high, binding(9, 9, 9_000));
    assert_eq!(world.model.entries(high).media, [(3, bob)]);
}

#[test]
fn what_cannot_be_is_refused_and_says_why() {
    let mut world = three();
    let c = name("c");
    let mut why = |request: Request| world.plan(&request).expect_err("refused").to_string();
    let subscribe = |who: &str, to: TrackPath, quality: Option<&str>| Request::PutSubscription {
        conference: c.clone(),
        participant: name(who),
        path: to,
        spec: SubscriptionSpec {
            quality: quality.map(name),
            leg: None,
        },
    };
    assert_eq!(
        why(subscribe("ann", path("ann", "cam"), None)),
        "a participant does not receive its own tracks"
    );
    assert_eq!(
        why(subscribe("bob", path("ann", "cam"), Some("mid"))),
        "track cam of participant ann has no quality mid, it has high, low"
    );
    assert_eq!(
        why(subscribe("bob", path("ann", "mic"), None)),
        "participant ann has no track mic"
    );
    let publish = |spec: TrackSpec| Request::PutTrack {
        conference: c.clone(),
        path: path("ann", "second"),
        spec,
    };
    let with = |qualities: Vec<QualitySpec>| TrackSpec {
        qualities,
        ..video()
    };
    assert_eq!(
        why(publish(with(Vec::new()))),
        "qualities: expected 1 to 4, found 0"
    );
    assert_eq!(
        why(publish(with(vec![quality("a", 0)]))),
        "max_kbps: expected 1 to 10000000, found 0"
    );
    assert_eq!(
        why(publish(with(vec![quality("a", 1), quality("a", 2)]))),
        "qualities: expected names that differ, found a twice"
    );
    let taken = QualitySpec {
        leg: Some(name("cam.high")),
        ..quality("a", 1)
    };
    assert!(
        why(publish(with(vec![taken]))).starts_with("leg cam.high sends quality high of track cam")
    );
    for title in ["a\nb", "a\u{202e}b"] {
        let bad = Request::PutConference {
            conference: c.clone(),
            spec: ConferenceSpec {
                title: title.to_owned(),
            },
        };
        assert!(why(bad).starts_with("title: expected a text without characters that control"));
    }
}

#[test]
fn a_request_that_is_made_again_changes_nothing() {
    let mut world = three();
    let requests = [
        Request::PutConference {
            conference: name("c"),
            spec: ConferenceSpec::default(),
        },
        Request::PutTrack {
            conference: name("c"),
            path: path("ann", "cam"),
            spec: video(),
        },
        Request::DeleteTrack {
            conference: name("c"),
            path: path("ann", "none"),
        },
        Request::DeleteSubscription {
            conference: name("c"),
            participant: name("bob"),
            path: path("ann", "none"),
        },
        Request::DeleteParticipant {
            conference: name("c"),
            participant: name("nobody"),
            reason: LeftReason::Left,
        },
        Request::DeleteConference {
            conference: name("none"),
        },
        Request::SignOut {
            leg: 999,
            socket: None,
        },
    ];
    for request in requests {
        assert_eq!(world.plan(&request), Ok(Change::default()), "{request:?}");
    }
}

const PEOPLE: [&str; 4] = ["ann", "bob", "cid", "dan"];

fn random_spec(rng: &mut Rng) -> ParticipantSpec {
    let mut spec = ParticipantSpec::default();
    for track in ["cam", "mic"] {
        if rng.u8(..4) == 0 {
            let mut published = video();
            published.qualities.truncate(rng.usize(1..3));
            published.qualities[0].leg = rng.bool().then(|| name("shared"));
            spec.tracks.insert(name(track), published);
        }
        for publisher in PEOPLE {
            if rng.u8(..8) == 0 {
                let subscription = SubscriptionSpec {
                    quality: rng.bool().then(|| name("low")),
                    leg: rng.bool().then(|| name("shared")),
                };
                let of_publisher = spec.subscriptions.entry(name(publisher)).or_default();
                of_publisher.insert(name(track), subscription);
            }
        }
    }
    spec
}

/// Splits a join into several requests: one that adds the participant, and one for each track and each subscription.
fn parts_of(conference: &Name, participant: &Name, spec: &ParticipantSpec) -> Vec<Request> {
    let mut parts = vec![Request::PutParticipant {
        conference: conference.clone(),
        participant: participant.clone(),
        spec: ParticipantSpec::default(),
        expires_ms: 9_000,
    }];
    parts.extend(spec.tracks.iter().map(|(track, spec)| Request::PutTrack {
        conference: conference.clone(),
        path: path(participant.as_str(), track.as_str()),
        spec: spec.clone(),
    }));
    for (publisher, tracks) in &spec.subscriptions {
        parts.extend(tracks.iter().map(|(track, spec)| Request::PutSubscription {
            conference: conference.clone(),
            participant: participant.clone(),
            path: path(publisher.as_str(), track.as_str()),
            spec: spec.clone(),
        }));
    }
    parts
}

type Events = Vec<(Name, EventKind)>;

/// Makes requests in a copy of a world, up to the first refusal. Returns the copy, and the events of each request.
fn one_by_one(world: &World, requests: &[Request]) -> (World, Result<Vec<Events>, Refusal>) {
    let mut apart = World {
        model: world.model.clone(),
        n_keys: world.n_keys,
    };
    let events = requests.iter().map(|request| {
        let change = apart.plan(request)?;
        apart.model.apply(&change);
        Ok(change.events)
    });
    let events = events.collect();
    (apart, events)
}

#[test]
fn a_join_does_what_the_requests_for_its_parts_do_or_nothing() {
    let mut rng = Rng::with_seed(11);
    let mut world = World::default();
    let (mut n_new, mut n_again, mut refusals) = (0, 0, [0; 4]);
    for _ in 0..12_000 {
        let request = random_request(&mut rng, &world.model);
        if let Ok(change) = world.plan(&request) {
            world.model.apply(&change);
        }
        let (conference, participant) = (name("c"), name(PEOPLE[rng.usize(..4)]));
        if rng.u8(..8) == 0 {
            let leave = Request::DeleteParticipant {
                conference: conference.clone(),
                participant: participant.clone(),
                reason: LeftReason::Left,
            };
            if let Ok(change) = world.plan(&leave) {
                world.model.apply(&change);
            }
        }
        let spec = random_spec(&mut rng);
        let has_both = !spec.tracks.is_empty() && !spec.subscriptions.is_empty();
        let before = world.model.participant(&conference, &participant);
        let before = before.ok().cloned();
        let (apart, parts) = one_by_one(&world, &parts_of(&conference, &participant, &spec));
        let join = Request::PutParticipant {
            conference: conference.clone(),
            participant: participant.clone(),
            spec,
            expires_ms: 9_000,
        };
        let joined = world.plan(&join);
        match (joined, parts) {
            (Ok(change), Ok(events)) => {
                assert_eq!(change.events, events.concat());
                world.model.apply(&change);
                let content = |model: &Model| {
                    let record = model.participant(&conference, &participant);
                    let record = record.expect("it is there").clone();
                    // New legs have other numbers and keys in the copy, so only the names of the legs are compared.
                    let legs: Vec<Name> = record.legs.into_keys().collect();
                    (record.tracks, record.subscriptions, legs)
                };
                assert_eq!(content(&world.model), content(&apart.model));
                let record = world.model.participant(&conference, &participant);
                let record = record.expect("it is there").clone();
                for (leg, old) in before.iter().flat_map(|it| &it.legs) {
                    assert!(record.legs.get(leg).is_none_or(|now| now == old));
                }
                assert_eq!(world.plan(&join), Ok(Change::default()));
                n_new += usize::from(has_both && before.is_none());
                n_again += usize::from(has_both && before.is_some());
            }
            (Err(refusal), Err(of_part)) => {
                assert_eq!(refusal, of_part);
                refusals[match refusal {
                    Refusal::OwnTrack => 0,
                    Refusal::NoTrack(_)
                    | Refusal::NoParticipant { .. }
                    | Refusal::NoConference(_) => 1,
                    Refusal::NoQuality { .. } => 2,
                    Refusal::LegSends { .. } => 3,
                    other => panic!("{other}"),
                }] += 1;
            }
            (joined, parts) => panic!("{join:?}: {joined:?}, but its parts: {parts:?}"),
        }
    }
    let counted = format!("{n_new} {n_again} {refusals:?}");
    assert!(n_new > 50 && n_again > 50, "{counted}");
    assert!(refusals.iter().all(|n| *n > 50), "{counted}");
}

#[expect(clippy::too_many_lines, reason = "a list of requests")]
fn random_request(rng: &mut Rng, model: &Model) -> Request {
    let conference = name(["c", "d"][rng.usize(..2)]);
    let who = |rng: &mut Rng| PEOPLE[rng.usize(..4)].to_owned();
    let (participant, other) = (who(rng), who(rng));
    let track = ["cam", "mic"][rng.usize(..2)];
    let legs: Vec<u16> = model.legs().collect();
    let leg = if legs.is_empty() {
        1
    } else {
        legs[rng.usize(..legs.len())]
    };
    let shared = rng.bool().then(|| name("shared"));
    match rng.u8(..12) {
        0 => Request::PutConference {
            conference,
            spec: ConferenceSpec::default(),
        },
        1 if rng.u8(..8) == 0 => Request::DeleteConference { conference },
        1 | 2 => Request::PutParticipant {
            conference,
            participant: name(&participant),
            spec: random_spec(rng),
            expires_ms: rng.u64(..9),
        },
        3 if rng.bool() => Request::DeleteParticipant {
            conference,
            participant: name(&participant),
            reason: LeftReason::Left,
        },
        3 | 4 => {
            let mut spec = video();
            spec.qualities.truncate(rng.usize(1..3));
            spec.qualities[0].leg = shared;
            if rng.bool() {
                spec.transport = Transport::Datagram;
            }
            Request::PutTrack {
                conference,
                path: path(&participant, track),
                spec,
            }
        }
        5 => Request::DeleteTrack {
            conference,
            path: path(&participant, track),
        },
        6 => Request::Mute {
            conference,
            path: path(&participant, track),
            muted: rng.bool(),
            by: MutedBy::Publisher,
        },
        7 | 8 => Request::PutSubscription {
            conference,
            participant: name(&participant),
            path: path(&other, track),
            spec: SubscriptionSpec {
                quality: rng.bool().then(|| name("low")),
                leg: shared,
            },
        },
        9 => Request::DeleteSubscription {
            conference,
            participant: name(&participant),
            path: path(&other, track),
        },
        10 if rng.u8(..3) == 0 => Request::SignOut {
            leg,
            // Signs out either this socket only, if the leg has it, or whichever socket the leg has.
            socket: rng.bool().then(|| binding(1, 1, 5_000)),
        },
        _ => Request::SignIn {
            leg,
            binding: binding(rng.u16(1..4), rng.u8(..6), 5_000),
        },
    }
}

fn all_entries(model: &Model) -> BTreeMap<u16, LegEntries> {
    let all = model.legs().map(|leg| (leg, model.entries(leg)));
    all.filter(|(_, it)| *it != LegEntries::default()).collect()
}

/// Checks that multicast groups have only legs that are signed in, are in the same conference, and belong to other
/// participants, and that each socket is in one entry only.
fn check(model: &Model) {
    let mut sockets = BTreeSet::new();
    for (leg, entries) in all_entries(model) {
        let place = model.leg(leg).expect("it is there");
        let socket = entries.socket.expect("signed in");
        assert!(sockets.insert((socket.port, socket.address, socket.udp_port, socket.mac)));
        assert_eq!(socket.media_group == 0, entries.media.is_empty());
        for (port, member) in entries.media.iter().chain(&entries.reports) {
            let of_member = model.leg(*member).expect("it is there");
            assert_eq!(of_member.conference, place.conference);
            assert_ne!(of_member.participant, place.participant);
            assert_eq!(model.binding(*member).map(|it| it.port), Some(*port));
        }
    }
}

#[test]
fn random_requests_touch_the_legs_that_they_say_and_can_be_followed_and_stored() {
    for seed in 0..40 {
        let mut rng = Rng::with_seed(seed);
        let mut world = World::default();
        let mut copy = Model::default();
        for _ in 0..400 {
            let request = random_request(&mut rng, &world.model);
            let Ok(change) = world.plan(&request) else {
                continue;
            };
            let before = all_entries(&world.model);
            let touched = world.model.apply(&change);
            let after = all_entries(&world.model);
            for leg in before.keys().chain(after.keys()) {
                let changed = before.get(leg) != after.get(leg);
                assert!(
                    !changed || touched.contains(leg),
                    "seed {seed}: {request:?}"
                );
            }
            check(&world.model);
            assert_eq!(copy.apply(&change), touched);
            assert_eq!(all_entries(&copy), after);
        }
        let records: Vec<_> = world.model.records().collect();
        let read = records.iter().map(|(key, record)| {
            let key: Key = key.to_string().parse().expect("a key");
            let record = Record::from_json(&key, &record.to_json()).expect("a record");
            (key, record)
        });
        let (again, orphans) = Model::load(read);
        assert_eq!(orphans, []);
        assert_eq!(again.records().collect::<Vec<_>>(), records);
        assert_eq!(all_entries(&again), all_entries(&world.model));
        assert_eq!(copy.records().collect::<Vec<_>>(), records);
    }
}

#[test]
fn what_a_conference_that_has_ended_left_is_not_loaded() {
    let world = three();
    let records = world.model.records();
    let without = records.filter(|(key, _)| *key != Key::Conference(name("c")));
    let (model, orphans) = Model::load(without);
    assert_eq!(model.legs().count(), 0);
    assert_eq!(orphans.len(), 7, "{orphans:?}");
}

#[test]
fn a_store_of_a_later_version_is_refused() {
    let key = Key::Conference(name("c"));
    let json = r#"{"title":"","created_ms":1,"colour":"red"}"#;
    let error = Record::from_json(&key, json)
        .expect_err("refused")
        .to_string();
    assert!(
        error.starts_with("the store's record conference/c cannot be read (unknown field `colour`"),
        "{error}"
    );
    let bad: Result<Key, BadRecord> = "planet/earth".parse();
    assert_eq!(bad, Err(BadRecord::Key("planet/earth".to_owned())));
}
