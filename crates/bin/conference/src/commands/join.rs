//! `reprise join`: lets programs of this machine, which speak plain RTP or exchange other datagrams, take part in a
//! conference.

use std::collections::BTreeMap;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use conference_api::{
    Event, EventKind, LeftReason, Leg, Name, Participant, ParticipantSpec, QualitySpec,
    SubscriptionSpec, Track, TrackKind, TrackPath, TrackSpec, Transport,
};
use conference_client::datagrams::{Near, Published};
use conference_client::relay::{self, Pair};
use conference_client::{Api, Bearer, MediaSocket, NotSent, sdp};
use serde_json::json;
use tokio::task::JoinSet;

use super::follow::{self, Follower, Stop, is_not_found};
use crate::args::{Global, Join};
use crate::failure::Failure;
use crate::files;
use crate::output;
use command_line::interrupt::unless_interrupted;

/// How long the first sign-in of a leg may take. A leg is one UDP socket's connection to the service.
const SIGN_IN: Duration = Duration::from_secs(10);
/// The least time between two reports of packets that are too long.
const COMPLAINT: Duration = Duration::from_secs(10);

pub async fn run(global: &Global, join: Join) -> Result<(), Failure> {
    let bearer = Bearer::read(&join.token)?;
    let api = match &join.ca {
        Some(ca) => Api::trusting(&join.url, &join.token, ca)?,
        None => Api::new(&join.url, &join.token),
    };
    let (conference, participant) = (bearer.conference, bearer.participant);
    let published = read_published(&join)?;
    let mut programs = Vec::new();
    let mut spec = ParticipantSpec::default();
    for (track, (port, sdp)) in &published {
        // The port is opened before the service learns of the track, so a track whose port is taken is never published.
        programs.push((track, *port, bind(track, *port).await?));
        let published = track_spec(track, Transport::Rtp, sdp.clone(), join.max_kbps);
        spec.tracks.insert(track.clone(), published);
    }
    if let Some(track) = &join.datagrams {
        let published = track_spec(track, Transport::Datagram, String::new(), join.max_kbps);
        spec.tracks.insert(track.clone(), published);
    }
    let joined = api.join((&conference, &participant), spec).await?;
    let mut host = Host {
        api: api.clone(),
        conference: conference.clone(),
        participant: participant.clone(),
        json: global.json,
        next_port: join.port,
        folder: join.sdp.clone(),
        chosen: match (join.receive_nothing, &join.received) {
            (true, _) => Some(Vec::new()),
            (false, all) if all.is_empty() => None,
            (false, chosen) => Some(chosen.clone()),
        },
        received: BTreeMap::new(),
        datagrams: None,
        tasks: JoinSet::new(),
    };
    say(
        global.json,
        json!({ "joined": joined.display_name }),
        || format!("joined conference {conference} as {participant}"),
    );
    let work = async {
        for (track, port, program) in programs {
            host.publish(&joined, track, (port, program)).await?;
        }
        if let Some(track) = &join.datagrams {
            host.publish_datagrams(&joined, track).await?;
        }
        follow::follow(&api, &conference, &mut host).await?;
        say(global.json, json!({ "ended": conference }), || {
            "the conference has ended".to_owned()
        });
        Ok(())
    };
    let ended = unless_interrupted(work).await;
    let left = api.leave(&conference, &participant).await;
    match ended {
        Some(ended) => ended,
        None => Ok(left?),
    }
}

/// Reads the tracks to publish, each with its port and its session description.
fn read_published(join: &Join) -> Result<BTreeMap<Name, (u16, String)>, Failure> {
    let mut published = BTreeMap::new();
    for (track, file) in &join.published {
        let text = files::text(file, "a session description (SDP)")?;
        let port = sdp::port_of(&text).map_err(|error| Failure::in_file(file, &error))?;
        published.insert(track.clone(), (port, text));
    }
    Ok(published)
}

fn kind_of(track: &Name) -> TrackKind {
    match track.as_str() {
        "audio" => TrackKind::Audio,
        "screen" => TrackKind::Screen,
        "video" => TrackKind::Video,
        _ => TrackKind::Data,
    }
}

/// A track of one quality, whose leg has the track's name.
fn track_spec(track: &Name, transport: Transport, sdp: String, max_kbps: u32) -> TrackSpec {
    TrackSpec {
        kind: kind_of(track),
        transport,
        qualities: vec![QualitySpec {
            name: Name::new("one").unwrap_or_else(|_| unreachable!()),
            max_kbps,
            leg: Some(track.clone()),
        }],
        sdp,
    }
}

/// Opens the ports to which a program sends the RTP and RTCP of a track.
async fn bind(track: &Name, port: u16) -> Result<Pair, Failure> {
    Pair::bind(port).await.map_err(|error| {
        Failure::new(format!(
            "cannot listen on 127.0.0.1 port {port} and {} for track {track}: {error}",
            port + 1
        ))
    })
}

/// Opens a participant's leg and signs it in.
async fn signed_in(there: &Participant, leg: &Name) -> Result<MediaSocket, Failure> {
    let leg = MediaSocket::open(leg_of(there, leg)?).await?;
    leg.sign_in(SIGN_IN).await?;
    Ok(leg)
}

fn say(is_json: bool, json: serde_json::Value, text: impl FnOnce() -> String) {
    if is_json {
        output::json(&json);
    } else {
        output::text(text());
    }
}

/// A track that is received. Ports are those of 127.0.0.1.
#[derive(Clone)]
struct Received {
    path: TrackPath,
    transport: Transport,
    /// The port to which the track's packets go; RTCP goes to the next port.
    player: u16,
    /// The port to which the player sends its RTCP or the datagrams to be published; `None` if there is no such port.
    own: Option<u16>,
    /// The session description that the publisher has given.
    sdp: String,
}

impl Received {
    fn say(&self, is_json: bool, folder: &Path) {
        let (path, player, own) = (&self.path, self.player, self.own);
        let TrackPath { participant, track } = path;
        match self.transport {
            Transport::Rtp => {
                let file = self.file(folder);
                let file = file.display();
                let json = json!({ "receives": path, "port": player, "rtcp_port": own, "sdp": file.to_string() });
                say(is_json, json, || {
                    let rtcp = own.map(|own| format!(" (its RTCP goes to port {own})"));
                    format!(
                        "receives {participant}/{track} on 127.0.0.1 port {player}{}: {file}",
                        rtcp.unwrap_or_default()
                    )
                });
            }
            Transport::Datagram => {
                let json = json!({ "receives": path, "port": player, "own_port": own });
                say(is_json, json, || {
                    let published =
                        own.map(|own| format!(" (what is sent to port {own} is published)"));
                    format!(
                        "receives {participant}/{track} on 127.0.0.1 port {player}{}",
                        published.unwrap_or_default()
                    )
                });
            }
        }
    }

    /// The path of the session description that a player of RTP opens.
    fn file(&self, folder: &Path) -> PathBuf {
        let TrackPath { participant, track } = &self.path;
        folder.join(format!("{participant}.{track}.sdp"))
    }

    fn describe(&self, folder: &Path) -> Result<(), Failure> {
        if self.transport == Transport::Datagram {
            return Ok(());
        }
        let text = sdp::for_receiver(&self.sdp, self.player);
        files::write(&self.file(folder), text.as_bytes())
    }
}

/// The program that gets a received track.
enum Player {
    Rtp(Pair, u16),
    Datagrams(Near, Option<(Complaints, Arc<Published>)>),
}

impl Player {
    async fn play(self, leg: &MediaSocket) -> Result<(), Failure> {
        match self {
            Player::Rtp(pair, port) => relay::receive(&pair, leg, port).await?,
            Player::Datagrams(near, None) => near.receive(leg).await?,
            Player::Datagrams(near, Some((mut complaints, published))) => {
                near.exchange(leg, &published, |error| complaints.say(error))
                    .await?;
            }
        }
        Ok(())
    }
}

/// Reports packets of a published track that are too long to be sent.
struct Complaints {
    track: Name,
    n: u64,
    last: Option<Instant>,
}

impl Complaints {
    fn new(track: Name) -> Complaints {
        Complaints {
            track,
            n: 0,
            last: None,
        }
    }

    /// Counts a packet that is too long. Reports the first such packet at once. Later reports give the number of such
    /// packets so far, and come at most once in `COMPLAINT`.
    fn say(&mut self, error: &NotSent) {
        self.n += 1;
        if self.last.is_none_or(|last| last.elapsed() >= COMPLAINT) {
            self.last = Some(Instant::now());
            output::error_line(format_args!(
                "reprise: {}: {error}; {} not sent so far. Have the program send shorter ones, ffmpeg by -pkt_size",
                self.track, self.n
            ));
        }
    }
}

struct Host {
    api: Api,
    conference: Name,
    participant: Name,
    json: bool,
    next_port: u16,
    folder: PathBuf,
    /// The tracks to receive; `None`: all.
    chosen: Option<Vec<TrackPath>>,
    received: BTreeMap<TrackPath, Received>,
    /// The track of datagrams that this host publishes, and its name.
    datagrams: Option<(Name, Arc<Published>)>,
    tasks: JoinSet<Result<(), Failure>>,
}

impl Host {
    /// Publishes a track: signs in the track's leg, and relays to it what a local program sends to this port.
    async fn publish(
        &mut self,
        joined: &Participant,
        track: &Name,
        (port, program): (u16, Pair),
    ) -> Result<(), Failure> {
        let leg = signed_in(joined, track).await?;
        say(
            self.json,
            json!({ "publishes": track, "port": port }),
            || format!("publishes {track}: send it to 127.0.0.1 port {port}"),
        );
        let mut complaints = Complaints::new(track.clone());
        self.tasks.spawn(async move {
            Ok(relay::publish(&program, &leg, |error| complaints.say(error)).await?)
        });
        Ok(())
    }

    /// Publishes a track of datagrams. Each track of datagrams of another participant has a local port. What a local
    /// program sends to these ports is published as this track.
    async fn publish_datagrams(
        &mut self,
        joined: &Participant,
        track: &Name,
    ) -> Result<(), Failure> {
        let leg = signed_in(joined, track).await?;
        say(self.json, json!({ "publishes": track }), || {
            format!("publishes {track}: send it to the ports that are named with others' tracks")
        });
        let published = Arc::new(Published::new(leg));
        self.datagrams = Some((track.clone(), Arc::clone(&published)));
        self.tasks
            .spawn(async move { match published.keep().await {} });
        Ok(())
    }

    /// Begins to receive a track, unless it is received already or is not wanted.
    async fn receive(&mut self, path: &TrackPath, track: &Track) -> Result<(), Stop> {
        if !self.wants(path) {
            return Ok(());
        }
        if let Some(received) = self.received.get_mut(path) {
            if received.sdp != track.sdp {
                received.sdp.clone_from(&track.sdp);
                received.describe(&self.folder)?;
                received.say(self.json, &self.folder);
            }
            return Ok(());
        }
        let whose = (&self.conference, &self.participant);
        let spec = SubscriptionSpec::default();
        let there = match self.api.subscribe(whose, path, spec).await {
            // The publisher has ended the track meanwhile.
            Err(error) if is_not_found(&error) => return Ok(()),
            there => there?,
        };
        let subscribed = there.subscriptions.iter().find(|it| it.path == *path);
        let leg = subscribed.map(|it| it.leg.clone());
        let leg = leg.ok_or_else(|| Failure::new("the service has lost the subscription"))?;
        let leg = MediaSocket::open(leg_of(&there, &leg)?).await;
        let leg = leg.map_err(Failure::from)?;
        let (player, own) = self.player_of(track.transport).await?;
        let received = Received {
            path: path.clone(),
            transport: track.transport,
            player: self.next_port,
            own,
            sdp: track.sdp.clone(),
        };
        self.next_port = self.next_port.checked_add(2).ok_or_else(|| {
            Failure::new("no port is left for another track: give a lower one with --port")
        })?;
        received.describe(&self.folder)?;
        self.received.insert(path.clone(), received.clone());
        let (is_json, folder) = (self.json, self.folder.clone());
        self.tasks.spawn(async move {
            match leg.sign_in(SIGN_IN).await {
                Ok(()) => received.say(is_json, &folder),
                // The leg goes on sending hello messages, so it may still sign in later.
                Err(error) => output::error_line(format_args!(
                    "reprise: {}/{} does not come yet: {error}; trying again",
                    received.path.participant, received.path.track
                )),
            }
            player.play(&leg).await
        });
        Ok(())
    }

    /// Makes the player of the next track. Returns the player and, if the player also sends, the port to which it
    /// sends.
    async fn player_of(&self, transport: Transport) -> Result<(Player, Option<u16>), Failure> {
        let port = self.next_port;
        match transport {
            Transport::Rtp => {
                let pair = Pair::bind_any().await?;
                let own = pair.port()? + 1;
                Ok((Player::Rtp(pair, port), Some(own)))
            }
            Transport::Datagram => {
                let own = port.saturating_add(1);
                let near = Near::bind(port, own).await.map_err(|error| {
                    Failure::new(format!(
                        "cannot listen on 127.0.0.1 port {own}: {error}; --port chooses others"
                    ))
                })?;
                let published = self.datagrams.clone();
                let own = published.is_some().then_some(own);
                let published = published.map(|(track, it)| (Complaints::new(track), it));
                Ok((Player::Datagrams(near, published), own))
            }
        }
    }

    /// Whether a track of another participant is to be received.
    fn wants(&self, path: &TrackPath) -> bool {
        let is_chosen = self.chosen.as_ref().is_none_or(|it| it.contains(path));
        is_chosen && path.participant != self.participant
    }

    /// Begins to receive those tracks of a participant that are to be received.
    async fn receive_all(&mut self, name: &Name, of: &Participant) -> Result<(), Stop> {
        for (track, it) in &of.tracks {
            let path = TrackPath {
                participant: name.clone(),
                track: track.clone(),
            };
            self.receive(&path, it).await?;
        }
        Ok(())
    }

    async fn look_up(&self, participant: &Name) -> Result<Option<Participant>, Stop> {
        follow::look_up(&self.api, &self.conference, participant).await
    }
}

impl Follower for Host {
    async fn read(&mut self) -> Result<(), Stop> {
        let there = match self.api.conference(&self.conference).await {
            Err(error) if is_not_found(&error) => return Err(Stop::Conference),
            there => there?,
        };
        if !there.participants.contains_key(&self.participant) {
            return Err(follow::own_left(&self.participant, LeftReason::Removed));
        }
        for (name, participant) in &there.participants {
            self.receive_all(name, participant).await?;
        }
        Ok(())
    }

    async fn event(&mut self, event: Event) -> Result<(), Stop> {
        match event.kind {
            EventKind::TrackAdded { path } if self.wants(&path) => {
                match self.look_up(&path.participant).await? {
                    Some(publisher) => self.receive_all(&path.participant, &publisher).await,
                    None => Ok(()),
                }
            }
            EventKind::Left {
                participant,
                reason,
            } if participant == self.participant => {
                match self.look_up(&participant).await? {
                    // The event is older than this participant's present stay in the conference.
                    Some(_) => Ok(()),
                    None => Err(follow::own_left(&participant, reason)),
                }
            }
            EventKind::ConferenceEnded => Err(Stop::Conference),
            EventKind::Lost => self.read().await,
            _ => Ok(()),
        }
    }

    async fn failed(&mut self) -> Failure {
        match self.tasks.join_next().await {
            Some(Ok(Err(failure))) => failure,
            Some(Err(error)) => Failure::new(error.to_string()),
            // The tasks, which relay packets, end only if they fail.
            Some(Ok(Ok(()))) | None => pending().await,
        }
    }
}

fn leg_of<'p>(participant: &'p Participant, leg: &Name) -> Result<&'p Leg, Failure> {
    let legs = participant.legs.as_ref();
    let found = legs.and_then(|legs| legs.get(leg));
    found.ok_or_else(|| Failure::new(format!("the service gave no leg {leg}")))
}
