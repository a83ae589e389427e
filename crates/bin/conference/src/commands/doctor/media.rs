//! Checks the way of the media: whether a hello (a UDP message) from this machine reaches the switch, and whether the
//! service's answer comes back.
//!
//! A hello is the first message that a socket sends to sign in for a leg, which is one UDP socket's connection of a
//! participant to the service. The service answers with a challenge. This check does not reply to the challenge, so it
//! signs in no socket. A socket that is already signed in stays signed in.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use command_line::findings::{Finding, Level};
use conference_api::{
    Leg, Name, Participant, QualitySpec, Subscription, SubscriptionSpec, Track, TrackSpec,
};
use data_encoding::HEXLOWER;
use hello::{Hello, KEY_LEN, Kind, NONCE_LEN, is_signed_with};

use super::api::{Service, claims};
use super::now_s;
use crate::files;

/// How long each hello waits for its answer.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(1_300),
];
const WHAT: &str = "media";

/// What the check has found about the way of the media.
#[derive(Debug, Default)]
pub(super) struct Media {
    /// The addresses to which this machine sends media.
    pub(super) addresses: Vec<SocketAddr>,
    /// Whether an answer has come back; `None` if nothing was sent.
    pub(super) has_answered: Option<bool>,
}

/// Sends hellos for a leg of the token's participant.
pub(super) fn look(service: &Service<'_>, token: &str, findings: &mut Vec<Finding>) -> Media {
    match leg_of(service, token) {
        Ok(leg) => of_leg(&leg, findings),
        Err((found, advice)) => {
            findings.push(Finding::advice(
                WHAT,
                format!("not looked at: {found}"),
                advice,
            ));
            Media::default()
        }
    }
}

/// Finds a leg of the participant, with its key. If there is none, returns the reason and what the user can do.
fn leg_of(service: &Service<'_>, token: &str) -> Result<Leg, (String, &'static str)> {
    const JOIN: &str = "run this again while `reprise join`, or your program, takes part";
    let claims = claims(token).map_err(|error| (error, JOIN))?;
    let (Some(conference), Some(name)) = (claims.conference, claims.sub) else {
        let found = "the token is not a participant's".to_owned();
        return Err((found, "--token with a participant's token"));
    };
    let conference_now = service
        .conference(&conference)
        .map_err(|error| (error, "try again"))?;
    let Some(participant) = conference_now.participants.get(&name) else {
        return Err((format!("{name} has not joined"), JOIN));
    };
    let Some((path, written)) = repeated(participant) else {
        let found = format!("{name} has neither a subscription nor a track");
        return Err((found, JOIN));
    };
    // The service gives the keys of legs only in its answer to a write. A write that repeats the present state changes
    // nothing.
    let path = format!("/v1/conferences/{conference}/participants/{name}/{path}");
    let answer: Result<Participant, String> = match &written {
        Write::Subscription(spec) => service.put(&path, spec),
        Write::Track(spec) => service.put(&path, spec),
    };
    let participant = answer.map_err(|error| (error, JOIN))?;
    let legs = participant.legs.unwrap_or_default();
    let leg = legs.into_values().find(|leg| leg.key.is_some());
    leg.ok_or_else(|| ("the service gives no key".to_owned(), JOIN))
}

#[derive(Debug, PartialEq, Eq)]
enum Write {
    Subscription(SubscriptionSpec),
    Track(TrackSpec),
}

/// Makes a write request that asks for what a participant has already. Returns the request's path below the
/// participant, and its content.
fn repeated(participant: &Participant) -> Option<(String, Write)> {
    if let Some(subscription) = participant.subscriptions.first() {
        let Subscription { path, quality, leg } = subscription;
        let spec = SubscriptionSpec {
            quality: quality.clone(),
            leg: Some(leg.clone()),
        };
        let path = format!("subscriptions/{}/{}", path.participant, path.track);
        return Some((path, Write::Subscription(spec)));
    }
    let legs = participant.legs.as_ref()?;
    // The service does not show which legs a track has. The track's legs are known only if they have the usual names,
    // TRACK.QUALITY.
    let has_usual_legs = |(name, track): &(&Name, &Track)| {
        let mut qualities = track.qualities.iter();
        qualities.all(|quality| {
            let usual = Name::new(format!("{name}.{}", quality.name));
            usual.is_ok_and(|usual| legs.contains_key(&usual))
        })
    };
    let (name, track) = participant.tracks.iter().find(has_usual_legs)?;
    let qualities = track.qualities.iter().map(|quality| QualitySpec {
        name: quality.name.clone(),
        max_kbps: quality.max_kbps,
        leg: None,
    });
    let spec = TrackSpec {
        kind: track.kind,
        transport: track.transport,
        qualities: qualities.collect(),
        sdp: track.sdp.clone(),
    };
    Some((format!("tracks/{name}"), Write::Track(spec)))
}

/// Sends hellos to each address of a leg.
fn of_leg(leg: &Leg, findings: &mut Vec<Finding>) -> Media {
    let key = leg.key.as_ref();
    let key = key.and_then(|key| HEXLOWER.decode(key.as_bytes()).ok());
    let Some(key) = key.and_then(|key| <[u8; KEY_LEN]>::try_from(key).ok()) else {
        let advice = "the service and this program are of different versions";
        let found = "not looked at: the leg's key has not 64 hexadecimal digits";
        findings.push(Finding::advice(WHAT, found, advice));
        return Media::default();
    };
    let addresses = leg.media.addresses.iter();
    let addresses: Vec<SocketAddr> = addresses
        .map(|it| SocketAddr::new(it.address, it.port))
        .collect();
    let mut found: Vec<Finding> = addresses
        .iter()
        .map(|to| match answer_of(*to, leg.number.into(), &key) {
            Ok(took) => {
                let took_ms = took.as_secs_f64() * 1e3;
                Finding::ok(WHAT, format!("UDP {to} answers in {took_ms:.1} ms"))
            }
            Err(silence) => silence.finding(*to),
        })
        .collect();
    let has_answered = found.iter().any(|finding| finding.level == Level::Ok);
    if has_answered {
        // One address that answers is enough, so problems with the other addresses are only advice.
        for finding in &mut found {
            finding.level = finding.level.min(Level::Advice);
        }
    }
    findings.append(&mut found);
    Media {
        addresses,
        has_answered: Some(has_answered),
    }
}

/// Why a hello has no answer.
#[derive(Debug)]
enum Silence {
    Nothing,
    System(io::Error),
}

impl Silence {
    fn finding(&self, to: SocketAddr) -> Finding {
        let (found, advice) = match self {
            Silence::Nothing => (
                format!("UDP {to}: no answer to {} hellos", PAUSES.len()),
                "UDP is blocked on the way there or back, or the switch or the service is away: see `ready` above, and `firewall` below",
            ),
            Silence::System(error) if error.kind() == io::ErrorKind::ConnectionRefused => (
                format!("UDP {to}: refused"),
                "the switch does not run, or serves another address",
            ),
            Silence::System(error) if error.kind() == io::ErrorKind::PermissionDenied => (
                format!("UDP {to}: {}", files::why(error)),
                "this machine's own firewall forbids it",
            ),
            Silence::System(error) => (
                format!("UDP {to}: {}", files::why(error)),
                "there is no way: `ip route get ADDRESS` says which one this machine knows",
            ),
        };
        Finding::unusable(WHAT, found, advice)
    }
}

/// Sends hellos until one is answered, and returns how long the answer has taken.
fn answer_of(to: SocketAddr, leg: u32, key: &[u8; KEY_LEN]) -> Result<Duration, Silence> {
    let any: IpAddr = match to.ip() {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).map_err(Silence::System)?;
    // The socket is connected, so the kernel drops packets from other addresses, and reports an error if nobody listens
    // at `to`.
    socket.connect(to).map_err(Silence::System)?;
    let mut last = Silence::Nothing;
    for pause in PAUSES {
        let time_ms = u64::try_from(now_s()).unwrap_or(0).saturating_mul(1_000);
        let hello = Hello {
            kind: Kind::Hello,
            leg,
            time_ms,
            nonce: [0; NONCE_LEN],
        };
        let began = Instant::now();
        if let Err(error) = socket.send(&hello.sign(key)) {
            last = Silence::System(error);
            std::thread::sleep(pause);
            continue;
        }
        match challenge(&socket, leg, key, began + pause) {
            Ok(true) => return Ok(began.elapsed()),
            Ok(false) => {}
            Err(error) => {
                last = Silence::System(error);
                std::thread::sleep(pause.saturating_sub(began.elapsed()));
            }
        }
    }
    Err(last)
}

/// Waits for a challenge. Returns whether one has come before `until`.
fn challenge(
    socket: &UdpSocket,
    leg: u32,
    key: &[u8; KEY_LEN],
    until: Instant,
) -> io::Result<bool> {
    let mut buffer = [0; 2_048];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        socket.set_read_timeout(Some(left))?;
        match socket.recv(&mut buffer) {
            Ok(n) => {
                let received = &buffer[..n];
                let is_challenge = Hello::decode(received)
                    .is_ok_and(|it| it.kind == Kind::Challenge && it.leg == leg);
                if is_challenge && is_signed_with(received, key) {
                    return Ok(true);
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) =>
            {
                return Ok(false);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use conference_api::{Quality, TrackKind, TrackPath, Transport};

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    const KEY: [u8; KEY_LEN] = [7; KEY_LEN];

    /// Starts a socket in place of a switch. It answers a hello with messages that are no valid challenge, and then
    /// with a valid challenge.
    fn switch() -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = socket.local_addr().expect("its address");
        std::thread::spawn(move || {
            let mut buffer = [0; 2_048];
            let (n, from) = socket.recv_from(&mut buffer).expect("a hello");
            let hello = Hello::decode(&buffer[..n]).expect("a hello");
            assert!(is_signed_with(&buffer[..n], &KEY));
            let challenge = Hello {
                kind: Kind::Challenge,
                nonce: [9; NONCE_LEN],
                ..hello
            };
            for answer in [
                b"no hello".to_vec(),
                challenge.sign(&[8; KEY_LEN]).to_vec(),
                challenge.sign(&KEY).to_vec(),
            ] {
                socket.send_to(&answer, from).expect("sent");
            }
        });
        address
    }

    #[test]
    fn only_a_challenge_with_the_legs_key_is_an_answer() {
        let took = answer_of(switch(), 3, &KEY).expect("an answer");
        assert!(took < PAUSES[0], "{took:?}");
    }

    #[test]
    fn a_port_that_nobody_has_is_told_from_silence() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let silent = socket.local_addr().expect("its address");
        let quiet = answer_of(silent, 3, &KEY).expect_err("no answer");
        assert!(matches!(quiet, Silence::Nothing), "{quiet:?}");
        drop(socket);
        let refused = answer_of(silent, 3, &KEY).expect_err("no answer");
        let finding = refused.finding(silent);
        assert!(finding.found.ends_with(": refused"), "{finding}");
    }

    #[test]
    fn what_is_written_is_what_is_there() {
        let leg = || Leg {
            number: 1,
            key: None,
            media: conference_api::Media {
                switch: name("s1"),
                addresses: Vec::new(),
            },
            signed_in_from: None,
            counted: None,
        };
        let track = Track {
            kind: TrackKind::Video,
            transport: Transport::Rtp,
            muted_by: None,
            qualities: vec![Quality {
                name: name("high"),
                max_kbps: 500,
                signed_in: true,
                packets_per_s: 0,
                kbps: 0,
                policed_packets: 0,
            }],
            sdp: "v=0".to_owned(),
        };
        let mut participant = Participant {
            display_name: "Ann".to_owned(),
            joined_ms: 0,
            tracks: BTreeMap::from([(name("camera"), track)]),
            subscriptions: Vec::new(),
            legs: Some(BTreeMap::from([(name("other"), leg())])),
        };
        // No leg has the usual name, `camera.high`, so it is not known which leg the track's quality has.
        assert_eq!(repeated(&participant), None);
        participant.legs = Some(BTreeMap::from([(name("camera.high"), leg())]));
        let (path, written) = repeated(&participant).expect("a write");
        assert_eq!(path, "tracks/camera");
        let Write::Track(spec) = written else {
            unreachable!("a track")
        };
        assert_eq!(
            (spec.sdp.as_str(), spec.qualities[0].max_kbps),
            ("v=0", 500)
        );
        participant.subscriptions = vec![Subscription {
            path: TrackPath {
                participant: name("bob"),
                track: name("audio"),
            },
            quality: None,
            leg: name("mix"),
        }];
        let (path, written) = repeated(&participant).expect("a write");
        assert_eq!(path, "subscriptions/bob/audio");
        assert_eq!(
            written,
            Write::Subscription(SubscriptionSpec {
                quality: None,
                leg: Some(name("mix")),
            })
        );
    }
}
