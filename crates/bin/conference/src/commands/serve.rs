//! `reprise serve`: the conference service.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use conference_api::{Claims, ConferenceSpec, Grants, Name, TrackKind};
use conference_model::Request;
use conference_service::config::{Config, LogFormat, StoreConfig};
use conference_service::core::{Core, now_ms};
use conference_service::live::{Live, Reloadable};
use conference_service::rows::OwnAddress;
use conference_service::serve::{Settings, serve};
use conference_service::tokens::{self, Keys};
use p4runtime_client::SwitchAddress;
use packet_io::mac_of;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::args::{Global, ServeService};
use crate::conference_program;
use crate::failure::Failure;
use crate::output;
use crate::reloading;
use command_line::interrupt::unless_interrupted;

/// How long the tokens of `--dev` are good.
const DEV_TOKEN_S: u64 = 12 * 3600;
/// The most that a participant of `--dev` may send, in kbit/s.
const DEV_KBPS: u32 = 50_000;
/// After how long a silent socket is signed out, with `--dev`.
const DEV_SILENCE: Duration = Duration::from_secs(30);
/// After how long a participant that gives no sign of life is removed, with `--dev`.
const DEV_GONE: Duration = Duration::from_secs(60);
const READY: &str = "ready: ";
/// The names of the service's own crates begin with this prefix. By this prefix, the log tells the debug lines of these
/// crates from the debug lines of other crates.
const OWN_CRATES: &str = "conference";

pub async fn run(global: &Global, options: ServeService) -> Result<(), Failure> {
    match &options.config {
        Some(file) => configured(global, file, options.check_config).await,
        None => {
            output::log_to_standard_error(OWN_CRATES, output::Level::INFO);
            dev(global, options.listen, options.media).await
        }
    }
}

async fn configured(global: &Global, file: &Path, only_checks: bool) -> Result<(), Failure> {
    // This comes before anything else: SIGHUP ends the process as long as it has no handler.
    let reload = signal(SignalKind::hangup())?;
    // Core dumps must be forbidden before keys are in memory.
    secret_memory::no_core_dumps()?;
    let (config, reloadable) = reloading::read(file)?;
    if only_checks {
        if global.json {
            output::json(&json!({ "ok": true }));
        } else {
            output::text(format!("{}: ok", file.display()));
        }
        return Ok(());
    }
    match config.log {
        LogFormat::Text => output::log_to_standard_error(OWN_CRATES, config.log_level.into()),
        LogFormat::Json => output::log_json_to_standard_error(OWN_CRATES, config.log_level.into()),
    }
    warn_of_open_keys(&config);
    let scheme = if config.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let (sender, newest) = watch::channel(Arc::new(reloadable));
    let in_file = |error| Failure::in_file(file, &error);
    let own_addresses = config.switch.addresses.iter().map(OwnAddress::from);
    let settings = Settings {
        listen: config.listen,
        store: config.store().map_err(in_file)?,
        live: Live::new(newest),
        switch_name: config.switch.name.clone(),
        switch: config.switch.address().map_err(in_file)?,
        device_id: config.switch.device_id,
        program: conference_program::compile()?,
        own_addresses: own_addresses.collect(),
        gone: config.gone(),
        metrics_names: config.metrics_names,
    };
    // From now on a signal to reload has a handler. A service that waits until it may lead is ready, too.
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
        tracing::warn!(%error, "the service manager could not be told that the service is ready");
    }
    let json = global.json;
    let is_ready = move |address: SocketAddr, _: &Core| {
        let url = format!("{scheme}://{address}");
        if json {
            output::json(&json!({ "url": url }));
        } else {
            output::text(format!("{READY}{url}"));
        }
    };
    let stop = async {
        unless_interrupted(std::future::pending::<()>()).await;
    };
    let reloads = reloading::reload_on(reload, file.to_owned(), config, sender);
    let reloads = tokio::spawn(reloads);
    let served = serve(settings, is_ready, stop).await;
    reloads.abort();
    Ok(served?)
}

/// Warns of private keys that every user of the machine can read.
fn warn_of_open_keys(config: &Config) {
    let own = config.tls.as_ref().map(|it| &it.key);
    let towards_switch = config.switch.tls.as_ref().and_then(|it| it.key.as_ref());
    let towards_etcd = config.etcd.as_ref().and_then(|it| it.key.as_ref());
    for key in own.into_iter().chain(towards_switch).chain(towards_etcd) {
        if let Some(said) = tls::key_open_to_others(key) {
            tracing::warn!("{said}");
        }
    }
}

/// A switch that this process has started. The switch ends with this process.
struct OwnSwitch {
    child: Child,
    p4runtime: String,
    media: SocketAddr,
}

impl Drop for OwnSwitch {
    fn drop(&mut self) {
        // The switch may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl OwnSwitch {
    /// Starts a switch. Only this user can reach the switch's P4Runtime socket, which is in the folder.
    fn start(media: SocketAddr, folder: &Path) -> Result<OwnSwitch, Failure> {
        let program = beside_this("reprise-switch");
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new(format!("cannot run {}: {error}", program.display()))
        };
        let mut command = match find("setpriv") {
            // With setpriv, the kernel ends the switch even when this process is killed.
            Some(setpriv) => {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "TERM", "--"]).arg(&program);
                command
            }
            None => Command::new(&program),
        };
        let grpc = format!("unix:{}", folder.join("switch.sock").display());
        command.args(["--grpc", &grpc, "-i", &format!("1@udp:{media}")]);
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        let stderr = child.stderr.take();
        let mut switch = OwnSwitch {
            child,
            p4runtime: String::new(),
            media,
        };
        let stderr = stderr.ok_or_else(|| failed(&"it has no output"))?;
        let mut lines = BufReader::new(stderr).lines();
        for line in &mut lines {
            let line = line.map_err(|error| failed(&error))?;
            let Some(ready) = line.strip_prefix(READY) else {
                output::error_line(line);
                continue;
            };
            let (p4runtime, media) = addresses_of(ready).ok_or_else(|| failed(&line))?;
            switch.p4runtime = p4runtime;
            switch.media = media;
            std::thread::spawn(|| lines.map_while(Result::ok).for_each(output::error_line));
            return Ok(switch);
        }
        let status = switch.child.wait().map_err(|error| failed(&error))?;
        Err(failed(&format!(
            "it ended ({status}), and says why above; `--media ADDRESS:PORT` chooses another UDP address than {media}"
        )))
    }
}

/// Reads two addresses from a switch's ready line: the address of its P4Runtime server, and the address of its UDP
/// port.
fn addresses_of(ready: &str) -> Option<(String, SocketAddr)> {
    let after = |what: &str| {
        let (_, rest) = ready.split_once(what)?;
        rest.split([',', ' ']).next()
    };
    Some((
        after("P4Runtime on ")?.to_owned(),
        after("1@udp:")?.parse().ok()?,
    ))
}

fn beside_this(name: &str) -> PathBuf {
    let here = std::env::current_exe().ok();
    let beside = here.and_then(|here| Some(here.parent()?.join(name)));
    beside
        .filter(|path| path.exists())
        .unwrap_or_else(|| name.into())
}

pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

async fn dev(global: &Global, listen: SocketAddr, media: SocketAddr) -> Result<(), Failure> {
    let program = conference_program::compile()?;
    let folder = tempfile::tempdir()?;
    let secret = tokens::new_secret();
    let mut keys = Keys::default();
    keys.add_secret(&secret)
        .map_err(|error| Failure::new(error.to_string()))?;
    let switch = OwnSwitch::start(media, folder.path())?;
    let address = match switch.media.ip() {
        ip if ip.is_unspecified() => {
            return Err(Failure::new(format!(
                "--media {media}: expected an address of this machine that hosts can send to"
            )));
        }
        ip => ip,
    };
    let settings = Settings {
        listen,
        store: StoreConfig::File(folder.path().join("store")),
        live: Live::fixed(Reloadable::of_keys(keys, DEV_SILENCE)),
        switch_name: name("dev"),
        switch: SwitchAddress::plain(&switch.p4runtime),
        device_id: 1,
        program,
        own_addresses: vec![own_address(address, switch.media.port())],
        gone: Some(DEV_GONE),
        metrics_names: false,
    };
    let json = global.json;
    let is_ready = move |address: SocketAddr, core: &Core| {
        let url = format!("http://{address}");
        let core = core.clone();
        tokio::spawn(async move {
            let demo = Request::PutConference {
                conference: name("demo"),
                spec: ConferenceSpec::default(),
            };
            match core.ask(demo).await {
                Ok(()) => say(&url, &secret, json),
                Err(error) => output::error_line(format_args!("reprise: {error}")),
            }
        });
    };
    let stop = async {
        unless_interrupted(std::future::pending::<()>()).await;
    };
    let served = serve(settings, is_ready, stop).await;
    drop(switch);
    Ok(served?)
}

/// Describes the address to which hosts send media. A switch whose port is a UDP socket has only this one address.
fn own_address(address: IpAddr, media_port: u16) -> OwnAddress {
    OwnAddress {
        port: 1,
        address,
        mac: mac_of(address),
        media_port,
    }
}

fn name(text: &'static str) -> Name {
    Name::new(text).unwrap_or_else(|_| unreachable!())
}

/// Prints the service's address, and commands with tokens that a user can paste.
fn say(url: &str, secret: &[u8], json: bool) {
    let token = |participant: Option<&'static str>| {
        let claims = Claims {
            exp: now_ms() / 1_000 + DEV_TOKEN_S,
            nbf: None,
            iss: None,
            sub: participant.map(name),
            conference: participant.map(|_| name("demo")),
            grants: Grants {
                publish: vec![
                    TrackKind::Audio,
                    TrackKind::Video,
                    TrackKind::Screen,
                    TrackKind::Data,
                ],
                max_kbps: DEV_KBPS,
                subscribe: true,
                administer: participant.is_none(),
            },
        };
        tokens::sign(&claims, secret).unwrap_or_else(|_| unreachable!())
    };
    let [ann, bob] = ["ann", "bob"].map(|one| token(Some(one)));
    let administrator = token(None);
    if json {
        output::json(&json!({
            "url": url,
            "conference": "demo",
            "administrator": administrator,
            "tokens": { "ann": ann, "bob": bob },
        }));
        return;
    }
    output::text(format!(
        "\
{READY}{url}

Conference \"demo\", for 12 hours. One who publishes a camera (camera.sdp is its session description):

  reprise join {url} --token {ann} --publish video=camera.sdp

Another one, who receives it on port 7000 and gets ann.video.sdp for a player:

  reprise join {url} --token {bob}

An administrator's token: {administrator}"
    ));
}
