//! Defines the command line: its commands and options, and the texts of `--help`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use conference_api::{Name, TrackPath};
use conference_client::address;

const SERVE_EXAMPLES: &str = "\
Examples:
  reprise serve --dev                                # prints an address and two commands to paste
  reprise serve --config /etc/reprise/reprise.toml
  reprise serve --config reprise.toml --check-config";

const JOIN_EXAMPLES: &str = "\
Examples, with the token that `reprise serve --dev` prints:
  ffmpeg -re -f lavfi -i testsrc2 -c:v libx264 -tune zerolatency -g 50 \\
      -f rtp 'rtp://127.0.0.1:5006?pkt_size=1200' -sdp_file camera.sdp
  reprise join http://127.0.0.1:8080 --token TOKEN --publish video=camera.sdp
  ffplay -protocol_whitelist file,udp,rtp ann.video.sdp      # written by another participant's join";

const WHY_EXAMPLES: &str = "\
Examples, with REPRISE_TOKEN set to the participant's or an administrator's token:
  reprise why bob ann/video
  reprise why bob ann/video --url http://sfu.example:8080 --json | jq .causes
  reprise why bob ann/video --conference weekly               # an administrator of all conferences";

const RECORD_EXAMPLES: &str = "\
Examples, with the token that `reprise serve --dev` prints for bob:
  reprise record http://127.0.0.1:8080 --token TOKEN --to monday
  reprise record http://127.0.0.1:8080 --token TOKEN --to monday --media    # and Matroska and Ogg, by ffmpeg
  wireshark monday/0001.ann.video.pcapng";

const LOAD_EXAMPLES: &str = "\
Examples:
  reprise load http://127.0.0.1:8080 --secret secret --conference weekly --participants 500 --publishers 4 --rate 100
  reprise load http://127.0.0.1:8080 --tokens tokens.txt --publishers 2 --subscribe 1 --leave 5 --seconds 60";

const DRAIN_EXAMPLES: &str = "\
Examples:
  reprise drain https://conferences.example --token TOKEN          # before the service is stopped for good
  reprise drain https://conferences.example --token TOKEN --off";

const BACKUP_EXAMPLES: &str = "\
Examples:
  reprise backup http://127.0.0.1:8080 --token TOKEN --to /var/backups/reprise.jsonl";

const RESTORE_EXAMPLES: &str = "\
Examples, with the service stopped, as its user:
  reprise restore --config /etc/reprise/reprise.toml --from /var/backups/reprise.jsonl
  reprise restore --config /etc/reprise/reprise.toml --from /var/backups/reprise.jsonl --replace";

/// Conferences that people join by themselves.
#[derive(Parser, Debug)]
// `name` is the command that a user types.
#[command(name = "reprise", version, max_term_width = 100)]
pub struct Args {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(clap::Args, Clone, Copy, Debug)]
pub struct Global {
    /// Print JSON instead of text: one document, or a document a line if the command keeps running.
    #[arg(long, global = true, display_order = 900)]
    pub json: bool,
}

/// The commands. `reprise` lists them, too.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run a conference service, until SIGTERM or Ctrl-C.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeService),
    /// Join a conference with programs of this machine that speak plain RTP.
    #[command(after_help = JOIN_EXAMPLES)]
    Join(Join),
    /// Show what stands between a publisher and a receiver: why somebody gets no picture.
    #[command(after_help = WHY_EXAMPLES)]
    Why(Why),
    /// Record every track of a conference, until Ctrl-C or the conference's end.
    #[command(after_help = RECORD_EXAMPLES)]
    Record(Record),
    /// Put load on a conference: participants who join, send and receive, and measure what they get.
    #[command(after_help = LOAD_EXAMPLES)]
    Load(Load),
    /// Check what is between this machine and a conference service; changes nothing. `reprise doctor` has the rest.
    #[command(hide = true)]
    Doctor(DoctorOfService),
    /// Let a conference service take nobody new; everything else goes on.
    #[command(after_help = DRAIN_EXAMPLES)]
    Drain(Drain),
    /// Save all records of a conference service while it runs.
    #[command(after_help = BACKUP_EXAMPLES)]
    Backup(Backup),
    /// Write a backup into the store of a conference service that is stopped.
    #[command(after_help = RESTORE_EXAMPLES)]
    Restore(Restore),
}

#[derive(clap::Args, Debug)]
pub struct ServeService {
    /// Run a switch and a service on this machine, for a first look: nothing is kept after the end.
    #[arg(long, conflicts_with = "config")]
    pub dev: bool,
    /// The configuration file; docs/operate.md describes it.
    #[arg(long, value_name = "FILE", required_unless_present = "dev")]
    pub config: Option<PathBuf>,
    /// With --dev: where to serve HTTP; port 0 takes a free one.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:8080",
        requires = "dev"
    )]
    pub listen: SocketAddr,
    /// With --dev: the address to which hosts send media; port 0 takes a free one.
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:5004",
        requires = "dev"
    )]
    pub media: SocketAddr,
    /// Only check the configuration file.
    #[arg(long, requires = "config")]
    pub check_config: bool,
}

/// A service, and an administrator of all its conferences.
#[derive(clap::Args)]
pub struct Administrator {
    /// The service, as http://HOST:PORT or https://HOST:PORT.
    #[arg(value_parser = address::checked)]
    pub url: String,
    /// The token of an administrator of all conferences.
    #[arg(long, env = "REPRISE_TOKEN", hide_env_values = true)]
    pub token: String,
    /// The file with the certificates (PEM) that sign the service's, if browsers do not trust it.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

impl std::fmt::Debug for Administrator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.url)
    }
}

#[derive(clap::Args, Debug)]
pub struct Drain {
    #[command(flatten)]
    pub of: Administrator,
    /// End the drain.
    #[arg(long)]
    pub off: bool,
}

#[derive(clap::Args, Debug)]
pub struct Backup {
    #[command(flatten)]
    pub of: Administrator,
    /// The file to write, as a whole or not at all; only its owner can read it, since it has the keys of sockets.
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
}

#[derive(clap::Args, Debug)]
pub struct Restore {
    /// The service's configuration file, which names the store.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// The backup.
    #[arg(long, value_name = "FILE")]
    pub from: PathBuf,
    /// Remove the records that the store has.
    #[arg(long)]
    pub replace: bool,
}

#[derive(clap::Args, Debug)]
pub struct Join {
    /// The service, as http://HOST:PORT or https://HOST:PORT.
    #[arg(value_parser = address::checked)]
    pub url: String,
    /// The participant's token; it names conference and participant.
    #[arg(long, env = "REPRISE_TOKEN", hide_env_values = true)]
    pub token: String,
    /// The file with the certificates (PEM) that sign the service's, if browsers do not trust it.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Publish a track: its name, and the session description (SDP) that the program which sends it writes. Join listens
    /// on the description's port of 127.0.0.1. The name audio, video or screen is the track's kind.
    #[arg(long = "publish", value_name = "TRACK=FILE.sdp", value_parser = published)]
    pub published: Vec<(Name, PathBuf)>,
    /// Publish a track of datagrams of any kind, JackTrip's for example. Each other's track of datagrams gets a pair of
    /// ports of 127.0.0.1, PORT and PORT + 1: for `jacktrip --client 127.0.0.1 --bindport PORT --peerport PORT+1`. Of several
    /// programs the first one that sends is published.
    #[arg(long, value_name = "TRACK")]
    pub datagrams: Option<Name>,
    /// The most that a published track sends, in kbit/s.
    #[arg(long, value_name = "KBPS", default_value_t = 8_000)]
    pub max_kbps: u32,
    /// Receive only these tracks; without it, all.
    #[arg(long = "receive", value_name = "PARTICIPANT/TRACK", value_parser = path)]
    pub received: Vec<TrackPath>,
    /// Receive nothing.
    #[arg(long, conflicts_with = "received")]
    pub receive_nothing: bool,
    /// The first of the ports of 127.0.0.1 to which received tracks go, two for each (RTP, RTCP).
    #[arg(long, value_name = "PORT", default_value_t = 7000)]
    pub port: u16,
    /// The folder for a session description of each received track, PARTICIPANT.TRACK.sdp, which players take.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub sdp: PathBuf,
}

#[derive(clap::Args, Debug)]
pub struct Why {
    /// Who should receive.
    pub participant: Name,
    /// The track.
    #[arg(value_name = "PUBLISHER/TRACK", value_parser = path)]
    pub track: TrackPath,
    /// The service, as http://HOST:PORT.
    #[arg(long, env = "REPRISE_URL", default_value = "http://127.0.0.1:8080", value_parser = address::checked)]
    pub url: String,
    /// The participant's token, or an administrator's.
    #[arg(long, env = "REPRISE_TOKEN", hide_env_values = true)]
    pub token: String,
    /// The conference, if the token is for all.
    #[arg(long, value_name = "NAME")]
    pub conference: Option<Name>,
}

#[derive(clap::Args, Debug)]
pub struct Record {
    /// The service, as http://HOST:PORT.
    #[arg(value_parser = address::checked)]
    pub url: String,
    /// A participant's token that allows to subscribe. Whoever takes part with it already is replaced.
    #[arg(long, env = "REPRISE_TOKEN", hide_env_values = true)]
    pub token: String,
    /// The folder for the recording; one that is there already is continued. Per track and time that it was published:
    /// NUMBER.PARTICIPANT.TRACK.pcapng with all packets, and the track's session description. For all: events.jsonl and
    /// recording.json.
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Also let ffmpeg write each track with a session description as Matroska or, for Opus, Ogg, not decoded.
    #[arg(long)]
    pub media: bool,
    /// The name that others see.
    #[arg(long, value_name = "TEXT", default_value = "Recording")]
    pub display_name: String,
}

#[derive(clap::Args, Debug)]
#[command(group(clap::ArgGroup::new("who").required(true).args(["secret", "tokens"])))]
pub struct Load {
    /// The service, as http://HOST:PORT.
    #[arg(value_parser = address::checked)]
    pub url: String,
    /// The service's secret (HS256), with which load makes the participants' tokens.
    #[arg(long, value_name = "FILE", requires = "conference")]
    pub secret: Option<PathBuf>,
    /// The conference, which an administrator has made.
    #[arg(long, value_name = "NAME", conflicts_with = "tokens")]
    pub conference: Option<Name>,
    /// Tokens of participants of one conference, one a line; the first ones are the publishers'.
    #[arg(long, value_name = "FILE", conflicts_with = "participants")]
    pub tokens: Option<PathBuf>,
    /// How many participants there are in all, with --secret.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub participants: u32,
    /// How many of them publish a track. They join first, and stay.
    #[arg(long, value_name = "M", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub publishers: u32,
    /// How many join each second, publishers and others.
    #[arg(long, value_name = "JOINS_PER_S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rate: u32,
    /// How long load goes on when all have joined.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=604_800))]
    pub seconds: u32,
    /// What a publisher sends, in kbit/s of UDP payload; 50 packets a second, more if they would be longer than 1,200
    /// bytes.
    #[arg(long, value_name = "KBPS", default_value_t = 64, value_parser = clap::value_parser!(u32).range(20..=50_000))]
    pub kbps: u32,
    /// To how many publishers each participant subscribes, chosen at random; without it, to all.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(0..=1_024))]
    pub subscribe: Option<u32>,
    /// How many percent of those who do not publish leave each second, and join again at once.
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub leave: u32,
}

#[derive(clap::Args, Debug)]
pub struct DoctorOfService {
    /// The service, as http://HOST:PORT or https://HOST:PORT.
    #[arg(long, value_name = "URL")]
    pub service: String,
    /// Look at this token, too, and at the way of the media of its participant, who must have joined.
    #[arg(long, env = "REPRISE_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// An authority in this PEM file has signed the service's certificate.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

fn published(text: &str) -> Result<(Name, PathBuf), String> {
    let (track, file) = text.split_once('=').ok_or("expected TRACK=FILE.sdp")?;
    let track = Name::new(track).map_err(|error| error.to_string())?;
    Ok((track, PathBuf::from(file)))
}

fn path(text: &str) -> Result<TrackPath, String> {
    let (participant, track) = text.split_once('/').ok_or("expected PARTICIPANT/TRACK")?;
    let name = |text: &str| Name::new(text).map_err(|error| error.to_string());
    Ok(TrackPath {
        participant: name(participant)?,
        track: name(track)?,
    })
}
