//! `reprise join`: programs of this machine that speak plain RTP take part in a conference.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use conference_api::{
    Conference, Leg, Name, Participant, ParticipantSpec, QualitySpec, SubscriptionSpec, TrackKind,
    TrackPath, TrackSpec, Transport,
};
use conference_client::relay::{self, Pair};
use conference_client::{Api, ApiError, Bearer, MediaSocket, sdp};
use serde_json::json;
use tokio::task::JoinSet;

use crate::args::{Global, Join};
use crate::failure::Failure;
use crate::files;
use crate::output;
use command_line::interrupt::unless_interrupted;

/// How long a first welcome may take.
const SIGN_IN: Duration = Duration::from_secs(10);
/// How often the conference is read without an event, since events may have been lost.
const READ_AGAIN: Duration = Duration::from_secs(5);

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
        received: BTreeMap::new(),
        tasks: JoinSet::new(),
    };
    host.say(json!({ "joined": joined.display_name }), || {
        format!("joined conference {conference} as {participant}")
    });
    let work = async {
        for (track, (port, text)) in published {
            host.publish(&track, port, text, join.max_kbps).await?;
        }
        host.follow(&join).await
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

struct Host {
    api: Api,
    conference: Name,
    participant: Name,
    json: bool,
    next_port: u16,
    folder: PathBuf,
    /// The port of each track that is received.
    received: BTreeMap<TrackPath, u16>,
    tasks: JoinSet<Result<(), Failure>>,
}

impl Host {
    fn say(&self, json: serde_json::Value, text: impl FnOnce() -> String) {
        if self.json {
            output::json(&json);
        } else {
            output::text(text());
        }
    }

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
        self.say(json!({ "publishes": track, "port": port }), || {
            format!("publishes {track}: send it to 127.0.0.1 port {port}")
        });
        self.tasks
            .spawn(async move { Ok(relay::publish(&program, &leg).await?) });
        Ok(())
    }

    /// Receives what others publish, until something fails.
    async fn follow(&mut self, join: &Join) -> Result<(), Failure> {
        let mut events = self.api.watch(&self.conference).await?;
        loop {
            if !join.receive_nothing {
                let conference = self.api.conference(&self.conference).await?;
                for (path, text) in wanted(&conference, &self.participant, &join.received) {
                    if !self.received.contains_key(&path) {
                        self.receive(&path, &text).await?;
                    }
                }
            }
            tokio::select! {
                Some(ended) = self.tasks.join_next() => {
                    return ended.map_err(|error| Failure::new(error.to_string()))?;
                }
                event = events.next() => if event.is_none() {
                    // The service restarts, perhaps.
                    tokio::time::sleep(Duration::from_millis(500)).await;
                    match self.api.watch(&self.conference).await {
                        Ok(watch) => events = watch,
                        Err(ApiError::Unreachable { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                },
                () = tokio::time::sleep(READ_AGAIN) => {}
            }
        }
    }

    async fn receive(&mut self, path: &TrackPath, sdp: &str) -> Result<(), Failure> {
        let whose = (&self.conference, &self.participant);
        let there = self
            .api
            .subscribe(whose, path, SubscriptionSpec::default())
            .await;
        let there = match there {
            // It has gone meanwhile.
            Err(ApiError::Refused(problem)) if problem.status == 404 => return Ok(()),
            there => there?,
        };
        let subscribed = there.subscriptions.iter().find(|it| it.path == *path);
        let leg = subscribed.map(|it| it.leg.clone());
        let leg = leg.ok_or_else(|| Failure::new("the service has lost the subscription"))?;
        let leg = MediaSocket::open(leg_of(&there, &leg)?).await?;
        leg.sign_in(SIGN_IN).await?;
        let port = self.next_port;
        self.next_port = self.next_port.checked_add(2).ok_or_else(|| {
            Failure::new("no port is left for another track: give a lower one with --port")
        })?;
        let file = self
            .folder
            .join(format!("{}.{}.sdp", path.participant, path.track));
        files::write(&file, sdp::for_receiver(sdp, port).as_bytes())?;
        self.received.insert(path.clone(), port);
        self.say(
            json!({ "receives": path, "port": port, "sdp": file.display().to_string() }),
            || {
                format!(
                    "receives {}/{} on 127.0.0.1 port {port}: {}",
                    path.participant,
                    path.track,
                    file.display()
                )
            },
        );
        self.tasks
            .spawn(async move { Ok(relay::receive(&leg, port).await?) });
        Ok(())
    }
}

fn leg_of<'p>(participant: &'p Participant, leg: &Name) -> Result<&'p Leg, Failure> {
    let legs = participant.legs.as_ref();
    let found = legs.and_then(|legs| legs.get(leg));
    found.ok_or_else(|| Failure::new(format!("the service gave no leg {leg}")))
}

/// The tracks of others that are to be received, with their session descriptions.
fn wanted(
    conference: &Conference,
    own: &Name,
    chosen: &[TrackPath],
) -> BTreeSet<(TrackPath, String)> {
    let others = conference
        .participants
        .iter()
        .filter(|(name, _)| *name != own);
    let tracks = others.flat_map(|(name, participant)| {
        participant.tracks.iter().map(move |(track, it)| {
            let path = TrackPath {
                participant: name.clone(),
                track: track.clone(),
            };
            (path, it.sdp.clone())
        })
    });
    tracks
        .filter(|(path, _)| chosen.is_empty() || chosen.contains(path))
        .collect()
}
