//! `reprise record`: a participant that receives every track of its conference and writes all of them to files.

mod catalog;
mod media;
mod track;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use conference_api::{
    Conference, Event, EventKind, LeftReason, Leg, Name, Participant, ParticipantSpec,
    SubscriptionSpec, Track, TrackKind, TrackPath,
};
use conference_client::sdp::{self, BadSdp};
use conference_client::{Api, Bearer};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::follow::{self, Follower, Stop, is_not_found};
use super::open_files;
use crate::args::{Global, Record};
use crate::failure::Failure;
use crate::output;
use catalog::{MediaFile, RecordedTrack};
use command_line::interrupt::unless_interrupted;
use media::Media;
use writer::{Message, Writer};

/// Maximum number of packets that wait for the disk: as many as a hundred tracks of high definition have in two
/// seconds.
const QUEUE: usize = 65_536;
/// How often files are written.
const FLUSH: Duration = Duration::from_secs(1);
/// How long the tracks may take to end.
const END_MAX: Duration = Duration::from_secs(10);
/// How long leaving may take, since the service may not be reachable.
const LEAVE_MAX: Duration = Duration::from_secs(3);
/// Maximum number of new legs that wait to replace the present leg of one track. A leg is one UDP socket's connection
/// to the service.
const LEGS: usize = 4;

pub async fn run(global: &Global, record: Record) -> Result<(), Failure> {
    let bearer = Bearer::read(&record.token)?;
    if !bearer.claims.grants.subscribe {
        return Err(Failure::new(
            "expected a token that allows to receive (grant \"subscribe\"), found one that does not",
        ));
    }
    if record.media && super::serve::find("ffmpeg").is_none() {
        return Err(Failure::new(
            "--media needs the program ffmpeg, which is not installed: install it (`apt install ffmpeg`), or record without --media",
        ));
    }
    open_files::allow_most();
    let api = Api::new(&record.url, &record.token);
    let whose = (&bearer.conference, &bearer.participant);
    let writer = Writer::open(&record.to, whose, now_ms())?;
    let next_number = writer.next_number()?;
    // Leaving ends the subscriptions that an earlier recorder of this name may have left behind.
    api.leave(whose.0, whose.1).await?;
    let spec = ParticipantSpec {
        display_name: record.display_name.clone(),
        ..ParticipantSpec::default()
    };
    let joined = api.join(whose, spec).await?;
    let (files, messages) = mpsc::channel(QUEUE);
    let (done, mut written) = oneshot::channel::<Result<(), Failure>>();
    let thread = std::thread::Builder::new().name("files".to_owned());
    // The thread reports its end through the channel.
    thread.spawn(move || done.send(writer.run(messages)).is_ok())?;
    let conference = bearer.conference;
    let mut recorder = Recorder {
        json: global.json,
        api: api.clone(),
        conference: conference.clone(),
        own: bearer.participant,
        record,
        joined_ms: joined.joined_ms,
        names: BTreeMap::new(),
        tracks: BTreeMap::new(),
        next_number,
        next_leg: 1,
        files: files.clone(),
        tasks: JoinSet::new(),
    };
    recorder.say(
        json!({ "recording": recorder.record.to.display().to_string() }),
        || {
            format!(
                "records conference {} into {}, until Ctrl-C",
                recorder.conference,
                recorder.record.to.display()
            )
        },
    );
    let flushes = tokio::spawn(flush(files));
    let (ended, written) = tokio::select! {
        ended = unless_interrupted(follow::follow(&api, &conference, &mut recorder)) => (ended, Some(written)),
        failed = &mut written => (Some(Err(of_thread(failed))), None),
    };
    flushes.abort();
    recorder.end(ended, written).await
}

/// Tells the thread that writes files to flush them each second, until the thread ends.
async fn flush(files: mpsc::Sender<Message>) {
    let mut ticks = interval(FLUSH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if files.send(Message::Flush(now_ms())).await.is_err() {
            return;
        }
    }
}

/// Returns why the thread that writes files has ended by itself.
fn of_thread(ended: Result<Result<(), Failure>, oneshot::error::RecvError>) -> Failure {
    match ended {
        Ok(Err(failure)) => failure,
        Ok(Ok(())) | Err(_) => Failure::new("the thread that writes files has ended"),
    }
}

pub(super) fn now_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
}

/// A track that is recorded now.
struct Recorded {
    /// When the track's publisher has joined. A publisher who has left and joined again publishes another track.
    publisher_joined_ms: u64,
    legs: mpsc::Sender<Leg>,
    /// Dropped to stop the recording of the track.
    _stop: oneshot::Sender<()>,
}

struct Recorder {
    json: bool,
    api: Api,
    conference: Name,
    own: Name,
    record: Record,
    joined_ms: u64,
    /// The display names of participants.
    names: BTreeMap<Name, String>,
    tracks: BTreeMap<TrackPath, Recorded>,
    next_number: u32,
    next_leg: u32,
    files: mpsc::Sender<Message>,
    tasks: JoinSet<Option<Failure>>,
}

impl Recorder {
    fn say(&self, json: Value, text: impl FnOnce() -> String) {
        if self.json {
            output::json(&json);
        } else {
            output::text(text());
        }
    }

    /// Sends a message to the thread that writes files. If the thread has ended, it reports the reason by itself, and
    /// this function waits for ever.
    async fn tell(&self, message: Message) {
        if self.files.send(message).await.is_err() {
            pending::<()>().await;
        }
    }

    fn whose(&self) -> (&Name, &Name) {
        (&self.conference, &self.own)
    }

    async fn join_again(&mut self) -> Result<BTreeSet<TrackPath>, Stop> {
        let spec = ParticipantSpec {
            display_name: self.record.display_name.clone(),
            ..ParticipantSpec::default()
        };
        let joined = self.api.join(self.whose(), spec).await?;
        self.joined_ms = joined.joined_ms;
        Ok(BTreeSet::new())
    }

    /// Fails if another program has joined with the same token: the two would take each other's legs.
    fn check_own(&self, own: &Participant) -> Result<(), Stop> {
        if own.joined_ms == self.joined_ms {
            return Ok(());
        }
        Err(Stop::Failed(Failure::new(format!(
            "another program has joined as {} meanwhile: give each a token of its own",
            self.own
        ))))
    }

    /// Begins to record the track of another participant, unless the track is recorded already.
    async fn start(
        &mut self,
        (name, publisher): (&Name, &Participant),
        (track, it): (&Name, &Track),
    ) -> Result<(), Stop> {
        let path = TrackPath {
            participant: name.clone(),
            track: track.clone(),
        };
        if *name == self.own || self.tracks.contains_key(&path) {
            return Ok(());
        }
        let Some(leg) = self.subscribe(&path).await? else {
            return Ok(());
        };
        let number = self.next_number;
        self.next_number += 1;
        // The number makes the file's name unique, even if the names of participants and tracks contain dots.
        let stem = format!("{number:04}.{name}.{track}");
        let pcapng = format!("{stem}.pcapng");
        let entry = RecordedTrack {
            number,
            path: path.clone(),
            display_name: publisher.display_name.clone(),
            kind: it.kind,
            transport: it.transport,
            pcapng: pcapng.clone(),
            sdp: (!it.sdp.is_empty()).then(|| format!("{stem}.sdp")),
            media: Vec::new(),
            since_ms: now_ms(),
            until_ms: None,
            first_packet_ms: None,
            last_packet_ms: None,
            packets: 0,
            bytes: 0,
            rtcp_packets: 0,
            dropped_here: 0,
            packets_of_other_sources: 0,
            sources: Vec::new(),
        };
        self.tell(Message::Open(Box::new(entry), it.sdp.clone()))
            .await;
        let left_out = Arc::new(AtomicU64::new(0));
        let media = self.start_media(number, stem, it, &left_out).await;
        let (legs, more_legs) = mpsc::channel(LEGS);
        let (stop, stopped) = oneshot::channel();
        let receiving = track::Track {
            number,
            kind: it.kind,
            leg,
            legs: more_legs,
            stop: stopped,
            files: self.files.clone(),
            media,
            left_out,
        };
        self.tasks
            .spawn(async move { track::receive(receiving).await.err().map(Failure::from) });
        self.say(json!({ "records": path, "pcapng": pcapng }), || {
            format!("records {name}/{track}: {pcapng}")
        });
        let recorded = Recorded {
            publisher_joined_ms: publisher.joined_ms,
            legs,
            _stop: stop,
        };
        self.tracks.insert(path, recorded);
        Ok(())
    }

    /// Starts ffmpeg for a track, if that is wanted and possible. Returns the channel into which the track's packets
    /// go.
    async fn start_media(
        &mut self,
        number: u32,
        stem: String,
        track: &Track,
        left_out: &Arc<AtomicU64>,
    ) -> Option<mpsc::Sender<Arc<[u8]>>> {
        if !self.record.media || track.kind == TrackKind::Data {
            return None;
        }
        // The port in the description is that of the publisher's program; here it need not be usable.
        if let Err(why @ (BadSdp::NoMedia | BadSdp::Several(_))) = sdp::port_of(&track.sdp) {
            let file = MediaFile {
                file: None,
                problem: Some(format!("the track's session description: {why}")),
                left_out: 0,
            };
            self.tell(Message::Media(number, 0, file)).await;
            return None;
        }
        let (to_ffmpeg, packets) = mpsc::channel(media::QUEUE);
        let media = Media {
            number,
            folder: PathBuf::from(&self.record.to),
            stem,
            kind: track.kind,
            sdp: track.sdp.clone(),
            packets,
            left_out: left_out.clone(),
            files: self.files.clone(),
        };
        self.tasks.spawn(async move {
            media.run().await;
            None
        });
        Some(to_ffmpeg)
    }

    /// Subscribes to a track, with a new leg for this subscription. Returns the leg, or `None` if the track no longer
    /// exists.
    async fn subscribe(&mut self, path: &TrackPath) -> Result<Option<Leg>, Stop> {
        let name = Name::new(format!("r{}", self.next_leg));
        let name = name.map_err(|error| Stop::Failed(error.into()))?;
        self.next_leg += 1;
        let spec = SubscriptionSpec {
            quality: None,
            leg: Some(name.clone()),
        };
        let there = match self.api.subscribe(self.whose(), path, spec).await {
            Err(error) if is_not_found(&error) => return Ok(None),
            there => there?,
        };
        let leg = there.legs.and_then(|mut legs| legs.remove(&name));
        let lost = || Stop::Failed(Failure::new(format!("the service gave no leg {name}")));
        Ok(Some(leg.ok_or_else(lost)?))
    }

    /// Subscribes again to a track whose subscription the service has lost; the recording continues in the same file.
    async fn renew(&mut self, path: &TrackPath) -> Result<(), Stop> {
        let Some(leg) = self.subscribe(path).await? else {
            return Ok(());
        };
        if let Some(recorded) = self.tracks.get(path) {
            // This fails only if the track's task has failed, which is reported elsewhere.
            let _ = recorded.legs.send(leg).await;
        }
        Ok(())
    }

    /// Stops the recording of a track that has ended.
    async fn stop(&mut self, path: &TrackPath) {
        if self.tracks.remove(path).is_none() {
            return;
        }
        self.say(json!({ "recorded": path }), || {
            format!("{}/{} has ended", path.participant, path.track)
        });
        // If the service cannot be reached, a subscription to a track that no longer exists stays.
        let _ = self.api.unsubscribe(self.whose(), path).await;
    }

    async fn look_up(&self, participant: &Name) -> Result<Option<Participant>, Stop> {
        follow::look_up(&self.api, &self.conference, participant).await
    }

    /// Handles the event that this participant has left. Somebody has removed this participant, unless the event is
    /// older than the time when it joined.
    async fn own_left(&mut self, reason: LeftReason) -> Result<(), Stop> {
        if reason != LeftReason::ConferenceEnded
            && let Some(own) = self.look_up(&self.own).await?
        {
            return self.check_own(&own);
        }
        Err(follow::own_left(&self.own, reason))
    }

    fn with_names(&self, event: &Event) -> Value {
        // An event consists of texts, numbers and names, so it can always be written as JSON.
        let mut value = serde_json::to_value(event).unwrap_or_else(|_| unreachable!());
        let who = value["participant"].as_str();
        let who = who.or_else(|| value["path"]["participant"].as_str());
        let who = who.and_then(|who| Name::new(who).ok());
        if let Some(name) = who.and_then(|who| self.names.get(&who)) {
            value["display_name"] = name.as_str().into();
        }
        value
    }

    /// Ends all files, and leaves the conference.
    async fn end(
        mut self,
        ended: Option<Result<(), Failure>>,
        written: Option<oneshot::Receiver<Result<(), Failure>>>,
    ) -> Result<(), Failure> {
        let why = match &ended {
            None => "interrupted".to_owned(),
            Some(Ok(())) => "the conference has ended".to_owned(),
            Some(Err(failure)) => failure.to_string(),
        };
        let has_conference_ended = matches!(ended, Some(Ok(())));
        self.tracks.clear();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        // Tasks that do not end in time are dropped. The thread still writes what they have sent to it.
        let _ = timeout(END_MAX, all).await;
        let end = Message::End(now_ms(), why.clone());
        let mut result = ended.unwrap_or(Ok(()));
        // If the thread has failed, nobody receives this message, and `written` has the failure.
        let _ = self.files.send(end).await;
        if let Some(written) = written
            && let Ok(Err(failure)) = written.await
        {
            result = result.and(Err(failure));
        }
        let left = timeout(LEAVE_MAX, self.api.leave(&self.conference, &self.own)).await;
        if !matches!(left, Ok(Ok(()))) && !has_conference_ended {
            output::error_line(
                "reprise: the service did not answer: the participant ends with its token",
            );
        }
        self.say(json!({ "ended": why }), || {
            format!(
                "ended: {why}; {} has the list of files",
                self.record.to.join("recording.json").display()
            )
        });
        result
    }
}

impl Follower for Recorder {
    async fn read(&mut self) -> Result<(), Stop> {
        let there = self.api.conference(&self.conference).await;
        let there = match there {
            Err(error) if is_not_found(&error) => return Err(Stop::Conference),
            there => there?,
        };
        let subscribed: BTreeSet<TrackPath> = match there.participants.get(&self.own) {
            Some(own) => {
                self.check_own(own)?;
                own.subscriptions.iter().map(|it| it.path.clone()).collect()
            }
            // The participant is missing because the service has lost its store.
            None => self.join_again().await?,
        };
        self.names = there
            .participants
            .iter()
            .map(|(name, it)| (name.clone(), it.display_name.clone()))
            .collect();
        self.tell(Message::Event(event_of_reading(&there))).await;
        let known: Vec<TrackPath> = self.tracks.keys().cloned().collect();
        for path in known {
            let recorded = self.tracks.get(&path).map(|it| it.publisher_joined_ms);
            let publisher = there.participants.get(&path.participant);
            let is_there = publisher.is_some_and(|it| {
                it.tracks.contains_key(&path.track) && Some(it.joined_ms) == recorded
            });
            if !is_there {
                self.stop(&path).await;
            } else if !subscribed.contains(&path) {
                self.renew(&path).await?;
            }
        }
        for (name, publisher) in &there.participants {
            for (track, it) in &publisher.tracks {
                self.start((name, publisher), (track, it)).await?;
            }
        }
        Ok(())
    }

    async fn event(&mut self, event: Event) -> Result<(), Stop> {
        if let EventKind::Joined { participant } = &event.kind
            && let Some(there) = self.look_up(participant).await?
        {
            self.names.insert(participant.clone(), there.display_name);
        }
        self.tell(Message::Event(self.with_names(&event))).await;
        match &event.kind {
            EventKind::Left {
                participant,
                reason,
            } if *participant == self.own => self.own_left(*reason).await?,
            EventKind::Left { participant, .. } => {
                let tracks = self.tracks.keys();
                let theirs = tracks.filter(|it| it.participant == *participant);
                for path in theirs.cloned().collect::<Vec<_>>() {
                    self.stop(&path).await;
                }
                self.names.remove(participant);
            }
            EventKind::TrackAdded { path } => {
                if let Some(publisher) = self.look_up(&path.participant).await?
                    && let Some(track) = publisher.tracks.get(&path.track)
                {
                    self.start((&path.participant, &publisher), (&path.track, track))
                        .await?;
                }
            }
            EventKind::TrackRemoved { path } => self.stop(path).await,
            EventKind::ConferenceEnded => return Err(Stop::Conference),
            EventKind::Lost => self.read().await?,
            _ => {}
        }
        Ok(())
    }

    async fn failed(&mut self) -> Failure {
        loop {
            match self.tasks.join_next().await {
                Some(Ok(Some(failure))) => return failure,
                Some(Ok(None)) => {}
                Some(Err(error)) => return Failure::new(error.to_string()),
                None => pending().await,
            }
        }
    }
}

/// Describes a conference at the time when the recorder read it, as an entry of the file of events: the recorder may
/// have missed earlier events.
fn event_of_reading(conference: &Conference) -> Value {
    let participants = conference.participants.iter().map(|(name, it)| {
        let tracks = it
            .tracks
            .iter()
            .map(|(track, it)| json!({ "track": track, "kind": it.kind, "muted_by": it.muted_by }));
        json!({
            "participant": name,
            "display_name": it.display_name,
            "tracks": tracks.collect::<Vec<_>>(),
        })
    });
    json!({
        "time_ms": now_ms(),
        "conference": conference.name,
        "event": "read",
        "title": conference.title,
        "participants": participants.collect::<Vec<_>>(),
    })
}
