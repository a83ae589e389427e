//! `reprise join`: programs of this machine that speak plain RTP take part in a conference.

use std::collections::BTreeMap;
use std::future::pending;
use std::path::PathBuf;
use std::time::Duration;

use conference_api::{
    Event, EventKind, LeftReason, Leg, Name, Participant, ParticipantSpec, QualitySpec,
    SubscriptionSpec, TrackKind, TrackPath, TrackSpec, Transport,
};
use conference_client::relay::{self, Pair};
use conference_client::{Api, Bearer, MediaSocket, sdp};
use serde_json::json;
use tokio::task::JoinSet;

use super::follow::{self, Follower, Stop, is_not_found};
use crate::args::{Global, Join};
use crate::failure::Failure;
use crate::files;
use crate::output;
use command_line::interrupt::unless_interrupted;

/// How long a first welcome may take.
const SIGN_IN: Duration = Duration::from_secs(10);

pub async fn run(global: &Global, join: Join) -> Result<(), Failure> {
    let bearer = Bearer::read(&join.token)?;
    let api = match &join.ca {
        Some(ca) => Api::trusting(&join.url, &join.token, ca)?,
        None => Api::new(&join.url, &join.token),
    };
    let (conference, participant) = (bearer.conference, bearer.participant);
    let published = read_published(&join)?;
    let joined = api
        .join((&conference, &participant), ParticipantSpec::default())
        .await?;
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
        tasks: JoinSet::new(),
    };
    say(
        global.json,
        json!({ "joined": joined.display_name }),
        || format!("joined conference {conference} as {participant}"),
    );
    let work = async {
        for (track, (port, text)) in published {
            host.publish(&track, port, text, join.max_kbps).await?;
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

/// The tracks to publish: port and session description of each.
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

fn say(is_json: bool, json: serde_json::Value, text: impl FnOnce() -> String) {
    if is_json {
        output::json(&json);
    } else {
        output::text(text());
    }
}

fn say_receives(is_json: bool, path: &TrackPath, port: u16, file: &str) {
    let TrackPath { participant, track } = path;
    say(
        is_json,
        json!({ "receives": path, "port": port, "sdp": file }),
        || format!("receives {participant}/{track} on 127.0.0.1 port {port}: {file}"),
    );
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
    /// The port and the session description of each track that is received.
    received: BTreeMap<TrackPath, (u16, String)>,
    tasks: JoinSet<Result<(), Failure>>,
}

impl Host {
    async fn publish(
        &mut self,
        track: &Name,
        port: u16,
        sdp: String,
        max_kbps: u32,
    ) -> Result<(), Failure> {
        let program = Pair::bind(port).await.map_err(|error| {
            Failure::new(format!(
                "cannot listen on 127.0.0.1 port {port} and {} for track {track}: {error}",
                port + 1
            ))
        })?;
        let quality = Name::new("one").unwrap_or_else(|_| unreachable!());
        let spec = TrackSpec {
            kind: kind_of(track),
            transport: Transport::Rtp,
            qualities: vec![QualitySpec {
                name: quality,
                max_kbps,
                leg: Some(track.clone()),
            }],
            sdp,
        };
        let path = TrackPath {
            participant: self.participant.clone(),
            track: track.clone(),
        };
        let there = self.api.publish(&self.conference, &path, spec).await?;
        let leg = MediaSocket::open(leg_of(&there, track)?).await?;
        leg.sign_in(SIGN_IN).await?;
        say(
            self.json,
            json!({ "publishes": track, "port": port }),
            || format!("publishes {track}: send it to 127.0.0.1 port {port}"),
        );
        self.tasks
            .spawn(async move { Ok(relay::publish(&program, &leg).await?) });
        Ok(())
    }

    /// Receives a track, unless that is done already.
    async fn receive(&mut self, path: &TrackPath, sdp: &str) -> Result<(), Stop> {
        if !self.wants(path) {
            return Ok(());
        }
        if let Some((port, before)) = self.received.get(path).cloned() {
            if before != sdp {
                let file = self.describe(path, sdp, port)?;
                say_receives(self.json, path, port, &file);
            }
            return Ok(());
        }
        let whose = (&self.conference, &self.participant);
        let spec = SubscriptionSpec::default();
        let there = match self.api.subscribe(whose, path, spec).await {
            // It has gone meanwhile.
            Err(error) if is_not_found(&error) => return Ok(()),
            there => there?,
        };
        let subscribed = there.subscriptions.iter().find(|it| it.path == *path);
        let leg = subscribed.map(|it| it.leg.clone());
        let leg = leg.ok_or_else(|| Failure::new("the service has lost the subscription"))?;
        let leg = MediaSocket::open(leg_of(&there, &leg)?).await;
        let leg = leg.map_err(Failure::from)?;
        let port = self.next_port;
        self.next_port = self.next_port.checked_add(2).ok_or_else(|| {
            Failure::new("no port is left for another track: give a lower one with --port")
        })?;
        let file = self.describe(path, sdp, port)?;
        let (path, is_json) = (path.clone(), self.json);
        self.tasks.spawn(async move {
            match leg.sign_in(SIGN_IN).await {
                Ok(()) => say_receives(is_json, &path, port, &file),
                // The relay tries on.
                Err(error) => output::error_line(format_args!(
                    "reprise: {}/{} does not come yet: {error}; trying again",
                    path.participant, path.track
                )),
            }
            Ok(relay::receive(&leg, port).await?)
        });
        Ok(())
    }

    /// Writes what a player takes; returns the file's name.
    fn describe(&mut self, path: &TrackPath, sdp: &str, port: u16) -> Result<String, Failure> {
        let name = format!("{}.{}.sdp", path.participant, path.track);
        let file = self.folder.join(name);
        files::write(&file, sdp::for_receiver(sdp, port).as_bytes())?;
        self.received.insert(path.clone(), (port, sdp.to_owned()));
        Ok(file.display().to_string())
    }

    /// Whether a track of another participant is to be received.
    fn wants(&self, path: &TrackPath) -> bool {
        let is_chosen = self.chosen.as_ref().is_none_or(|it| it.contains(path));
        is_chosen && path.participant != self.participant
    }

    /// Receives all tracks of a participant that are to be received.
    async fn receive_all(&mut self, name: &Name, of: &Participant) -> Result<(), Stop> {
        for (track, it) in &of.tracks {
            let path = TrackPath {
                participant: name.clone(),
                track: track.clone(),
            };
            self.receive(&path, &it.sdp).await?;
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
                    // The event is older than the joining.
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
            // Relays only end by failing.
            Some(Ok(Ok(()))) | None => pending().await,
        }
    }
}

fn leg_of<'p>(participant: &'p Participant, leg: &Name) -> Result<&'p Leg, Failure> {
    let legs = participant.legs.as_ref();
    let found = legs.and_then(|legs| legs.get(leg));
    found.ok_or_else(|| Failure::new(format!("the service gave no leg {leg}")))
}
