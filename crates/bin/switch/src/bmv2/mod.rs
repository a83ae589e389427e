//! Runs the switch under the names of BMv2's programs, `simple_switch` and `simple_switch_grpc`, with their command
//! lines. The binary does this when it is started under one of these names.
//!
//! [`translate`] turns a BMv2 command line into one of `reprise-switch`. [`Bmv2`] holds the requests for which
//! `reprise-switch` has no option. An unsupported option is refused if a script would miss its effect, and otherwise
//! accepted with a notice.

mod log;
mod options;
mod ports;

use std::ffi::OsStr;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use dataplane::{Severity, limits};
use stream_socket::{Address, unix_path};

use crate::options::{DEFAULT_GRPC_ADDRESS, Options, VERSION};
use crate::say;
use crate::services::Services;
pub(crate) use log::Log;
pub(crate) use ports::{Observers, observe, observed};

use options::{Does, Given, OPTIONS, Place, Spec, Takes};

/// The TCP port at which `simple_switch_CLI` expects the switch.
const DEFAULT_THRIFT_PORT: u16 = 9090;

const DEFAULT_PORTS_MAX: usize = 512;

/// The default maximum size of a log file in bytes, and the default number of older log files that are kept.
const DEFAULT_LOG_BYTES_MAX: u64 = 5 << 20;
const DEFAULT_LOG_FILES_MAX: usize = 3;

/// Maximum packets in a queue of a port, unless `set_queue_depth` changes it.
const QUEUE_PACKETS: usize = 64;

/// The number of queues of each port: one queue for each priority.
const PRIORITIES: usize = 8;

/// The name of a BMv2 program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    /// Controlled over Thrift.
    SimpleSwitch,
    /// Controlled over P4Runtime too.
    SimpleSwitchGrpc,
}

impl Name {
    /// Returns the BMv2 program that has the same name as the file of `started_as`, the path that started the binary.
    pub(crate) fn of(started_as: &OsStr) -> Option<Name> {
        match Path::new(started_as).file_name()?.to_str()? {
            "simple_switch" => Some(Name::SimpleSwitch),
            "simple_switch_grpc" => Some(Name::SimpleSwitchGrpc),
            _ => None,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Name::SimpleSwitch => "simple_switch",
            Name::SimpleSwitchGrpc => "simple_switch_grpc",
        }
    }

    fn other(self) -> Name {
        match self {
            Name::SimpleSwitch => Name::SimpleSwitchGrpc,
            Name::SimpleSwitchGrpc => Name::SimpleSwitch,
        }
    }
}

/// The requests of a BMv2 command line for which `reprise-switch` has no option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bmv2 {
    pub(crate) name: Name,
    pub(crate) log: Option<LogTo>,
    /// The least severe level that is logged; with `None` nothing is logged.
    pub(crate) log_from: Option<Severity>,
    /// Whether the log is written after each packet, even if other packets wait.
    pub(crate) flushes_log: bool,
    /// How many bytes of each frame are logged; if this is 0, no bytes of frames are logged.
    pub(crate) dumped_bytes: usize,
    pub(crate) recordings: Option<PathBuf>,
    /// When the replay starts, if captures take the place of interfaces.
    pub(crate) replay_at: Duration,
    /// Whether there are packet-ins and packet-outs.
    pub(crate) has_cpu_port: bool,
    pub(crate) notifications: Option<NotificationsAt>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotificationsAt {
    /// In nanomsg's syntax.
    pub(crate) address: String,
    /// Whether the command line names the address. If it does, a failure to publish there is an error.
    pub(crate) is_asked: bool,
}

impl Bmv2 {
    /// Whether packets are traced for the log; if not, the native engine may run the program.
    pub(crate) fn traces(&self) -> bool {
        // Levels above info show only packets with errors, which counters show too.
        self.log.is_some() && self.log_from.is_some_and(|from| from <= Severity::Info)
    }

    /// The log's file name without its ending.
    pub(crate) fn log_path(&self) -> Option<&Path> {
        match &self.log {
            Some(LogTo::File { path, .. }) => Some(path),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LogTo {
    Console,
    /// The log is written to `PATH.txt`. `bytes_max` is the maximum size of this file, and `files_max` is the number of
    /// older files that are kept.
    File {
        path: PathBuf,
        bytes_max: u64,
        files_max: usize,
    },
}

/// Why a command line is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mistake(String);

#[derive(Debug)]
pub(crate) enum Outcome {
    Run {
        options: Box<Options>,
        notices: Vec<String>,
    },
    /// Print this text and end.
    Print(String),
}

/// Reads the command line of a switch that was started under this name; `words` do not include the name.
pub(crate) fn read(name: Name, words: impl Iterator<Item = String>) -> Result<Options, ExitCode> {
    match translate(name, words) {
        Ok(Outcome::Run { options, notices }) => {
            for notice in notices {
                say(&format!("{}: {notice}", name.as_str()));
            }
            Ok(*options)
        }
        Ok(Outcome::Print(text)) => Err(crate::print(&text)),
        Err(Mistake(message)) => {
            say(&format!("{}: error: {message}", name.as_str()));
            // BMv2's exit code for a wrong command line; `reprise-switch` ends with 2.
            Err(ExitCode::FAILURE)
        }
    }
}

/// Prints and logs that the servers are ready, in the places where scripts look for these messages.
pub(crate) fn log_ready(log: Option<&Log>, services: &Services) {
    if let Some(address) = services.grpc_address() {
        crate::print(&format!("Server listening on {address}\n"));
    }
    if let Some(log) = log {
        // Scripts wait for these lines.
        if let Some(Address::Ip(address)) = services.thrift_address() {
            let port = address.port();
            log.line(
                Severity::Info,
                &format!("Starting Thrift server on port {port}"),
            );
            log.line(Severity::Info, "Thrift server was started");
        }
        log.line(Severity::Info, "The switch is ready");
    }
}

/// Translates a BMv2 command line into options of this switch.
pub(crate) fn translate(
    name: Name,
    words: impl IntoIterator<Item = String>,
) -> Result<Outcome, Mistake> {
    let (given, others) = options::split(name, words)?;
    let mut request = Request::new(name);
    for given in given {
        if let Some(text) = request.take(&given)? {
            return Ok(Outcome::Print(text));
        }
    }
    request.take_program(others)?;
    request.finish()
}

struct Request {
    name: Name,
    seen: Vec<&'static str>,
    notices: Vec<String>,
    program: Option<String>,
    is_without_program: bool,
    /// The ports as the command line gives them.
    ports: Vec<String>,
    ports_max: usize,
    uses_files: bool,
    thrift_port: u16,
    thrift_addr: IpAddr,
    device_id: u64,
    grpc: String,
    tls: Tls,
    cpu_port: Option<u16>,
    log_file: Option<PathBuf>,
    bytes_max: u64,
    files_max: usize,
    rest: Bmv2,
}

#[derive(Debug, Default)]
struct Tls {
    is_on: bool,
    asks_clients: bool,
    certificate: Option<String>,
    key: Option<String>,
    authorities: Option<String>,
}

impl Request {
    fn new(name: Name) -> Request {
        Request {
            name,
            seen: Vec::new(),
            notices: Vec::new(),
            program: None,
            is_without_program: false,
            ports: Vec::new(),
            ports_max: DEFAULT_PORTS_MAX,
            uses_files: false,
            thrift_port: DEFAULT_THRIFT_PORT,
            thrift_addr: Ipv4Addr::LOCALHOST.into(),
            device_id: 0,
            grpc: match name {
                Name::SimpleSwitch => "off".to_owned(),
                Name::SimpleSwitchGrpc => DEFAULT_GRPC_ADDRESS.to_owned(),
            },
            tls: Tls::default(),
            cpu_port: None,
            log_file: None,
            bytes_max: DEFAULT_LOG_BYTES_MAX,
            files_max: DEFAULT_LOG_FILES_MAX,
            rest: Bmv2 {
                name,
                log: None,
                log_from: Some(Severity::Trace),
                flushes_log: false,
                dumped_bytes: 0,
                recordings: None,
                replay_at: Duration::ZERO,
                has_cpu_port: false,
                notifications: None,
            },
        }
    }

    /// Applies an option; returns a text if that is to be printed instead of running.
    fn take(&mut self, given: &Given) -> Result<Option<String>, Mistake> {
        let Given { spec, value } = given;
        let text = value.as_deref().unwrap_or_default();
        self.expect_once(spec)?;
        match spec.does {
            Does::Help => return Ok(Some(help(self.name))),
            Does::Version => {
                let name = self.name.as_str();
                return Ok(Some(format!("{VERSION}, Reprise as {name}\n")));
            }
            Does::JsonVersion => {
                let [major, minor] = JSON_VERSION;
                return Ok(Some(format!("{major}.{minor}\n")));
            }
            Does::Interface => self.ports.push(text.to_owned()),
            Does::NoP4 => self.is_without_program = true,
            Does::ThriftPort => self.thrift_port = number(spec, text, 1, u16::MAX)?,
            Does::ThriftAddr => self.thrift_addr = ip_address(spec, text)?,
            Does::DeviceId => self.device_id = number(spec, text, 0, u64::MAX)?,
            Does::MaxPortCount => self.ports_max = number(spec, text, 0, usize::MAX)?,
            Does::UseFiles => {
                self.uses_files = true;
                self.rest.replay_at = Duration::from_secs(number(spec, text, 0, u32::MAX)?.into());
            }
            Does::Pcap => self.rest.recordings = Some(folder(text)?),
            Does::GrpcServerAddr => self.grpc = grpc_address(spec, text)?,
            Does::GrpcSsl => self.tls.is_on = true,
            Does::GrpcClientAuth => self.tls.asks_clients = true,
            Does::GrpcCaCert => self.tls.authorities = file(spec, text)?,
            Does::GrpcCert => self.tls.certificate = file(spec, text)?,
            Does::GrpcKey => self.tls.key = file(spec, text)?,
            Does::CpuPort => self.cpu_port = Some(number(spec, text, 1, limits::PORT_ID_MAX)?),
            Does::DropPort => {
                let port: u64 = number(spec, text, 0, u64::MAX)?;
                if port != u64::from(limits::DROP_PORT) {
                    let only = limits::DROP_PORT;
                    return fail(format!(
                        "--drop-port: expected {only}, the only drop port of this switch, found {port}"
                    ));
                }
            }
            Does::PriorityQueues => {
                number(spec, text, 1, PRIORITIES)?;
            }
            Does::Number => {
                number(spec, text, 1, i32::MAX)?;
            }
            Does::NoEffect => {}
            Does::Notice(reason) => self.notices.push(format!("--{}: {reason}", spec.long)),
            Does::NotificationsAddr => {
                self.rest.notifications = Some(NotificationsAt {
                    address: text.to_owned(),
                    is_asked: true,
                });
            }
            Does::Refused(reason) => return fail(format!("--{}: {reason}", spec.long)),
            Does::LogConsole
            | Does::LogFile
            | Does::LogFlush
            | Does::LogLevel
            | Does::LogFileMaxSize
            | Does::LogFileMaxFiles
            | Does::DumpPacketData => self.take_log(spec, text)?,
        }
        Ok(None)
    }

    fn take_log(&mut self, spec: &'static Spec, text: &str) -> Result<(), Mistake> {
        match spec.does {
            Does::LogConsole => self.rest.log = Some(LogTo::Console),
            Does::LogFlush => self.rest.flushes_log = true,
            Does::LogFile => self.log_file = Some(path(spec, text)?),
            Does::LogLevel => self.rest.log_from = level(text)?,
            Does::LogFileMaxSize => self.bytes_max = number(spec, text, 1, u64::MAX)?,
            Does::LogFileMaxFiles => self.files_max = number(spec, text, 0, 1_000)?,
            _ => self.rest.dumped_bytes = number(spec, text, 0, usize::MAX)?,
        }
        Ok(())
    }

    /// Refuses an option that was given before; only interfaces may be given several times.
    fn expect_once(&mut self, spec: &'static Spec) -> Result<(), Mistake> {
        if spec.does == Does::Interface {
            return Ok(());
        }
        if self.seen.contains(&spec.long) {
            return fail(format!("option --{} is given twice", spec.long));
        }
        self.seen.push(spec.long);
        Ok(())
    }

    fn take_program(&mut self, words: Vec<String>) -> Result<(), Mistake> {
        let mut words = words.into_iter();
        let program = words.next();
        if let Some(other) = words.next() {
            let first = program.unwrap_or_default();
            return fail(format!(
                "expected one program, found \"{first}\" and \"{other}\""
            ));
        }
        match (program, self.is_without_program) {
            (Some(program), true) => self
                .notices
                .push(format!("{program} is not loaded, since --no-p4 is given")),
            (Some(program), false) => self.program = Some(program),
            (None, true) => {}
            (None, false) => {
                return fail("expected a program (prog.json) or --no-p4, found neither".to_owned());
            }
        }
        Ok(())
    }

    /// Checks options against each other, and makes the options of the switch.
    fn finish(mut self) -> Result<Outcome, Mistake> {
        self.choose_log()?;
        if self.ports.len() > self.ports_max {
            let (max, found) = (self.ports_max, self.ports.len());
            return fail(format!(
                "--max-port-count: expected {max} interfaces at most, found {found}"
            ));
        }
        if self.uses_files && self.rest.recordings.take().is_some() {
            let notice = "--pcap: with --use-files every frame is in a file anyhow";
            self.notices.push(notice.to_owned());
        }
        self.check_tls()?;
        self.rest.has_cpu_port = self.cpu_port.is_some();
        self.choose_notifications();
        let words = self.words()?;
        let options = Options::try_parse_from(&words);
        let mut options = options.map_err(|error| Mistake(first_line(&error)))?;
        options.bmv2 = Some(self.rest);
        Ok(Outcome::Run {
            options: Box::new(options),
            notices: self.notices,
        })
    }

    /// By default `simple_switch` publishes notifications by nanomsg, and `simple_switch_grpc` sends them over
    /// P4Runtime only, as in BMv2.
    fn choose_notifications(&mut self) {
        if self.name == Name::SimpleSwitch && self.rest.notifications.is_none() {
            let device_id = self.device_id;
            self.rest.notifications = Some(NotificationsAt {
                address: format!("ipc:///tmp/bmv2-{device_id}-notifications.ipc"),
                is_asked: false,
            });
        }
    }

    fn choose_log(&mut self) -> Result<(), Mistake> {
        let path = self.log_file.take();
        if path.is_some() && self.rest.log.is_some() {
            return fail("--log-console and --log-file exclude each other".to_owned());
        }
        for option in ["log-flush", "log-file-max-size", "log-file-max-files"] {
            if path.is_none() && self.seen.contains(&option) {
                let notice = format!("--{option} has no effect without --log-file");
                self.notices.push(notice);
            }
        }
        self.rest.flushes_log &= path.is_some();
        if let Some(path) = path {
            self.rest.log = Some(LogTo::File {
                path,
                bytes_max: self.bytes_max,
                files_max: self.files_max,
            });
        }
        let shows_dumps = self.rest.traces();
        if self.rest.dumped_bytes > 0 && !shows_dumps {
            self.rest.dumped_bytes = 0;
            let notice = "--dump-packet-data: nothing is shown without --log-console or --log-file, at level info or below";
            self.notices.push(notice.to_owned());
        }
        Ok(())
    }

    /// Checks the options for TLS as BMv2 does: without `--grpc-server-ssl` certificates are ignored; with this option
    /// a certificate and its key are required.
    fn check_tls(&mut self) -> Result<(), Mistake> {
        let Tls {
            is_on,
            asks_clients,
            certificate,
            key,
            authorities,
        } = &self.tls;
        if !is_on {
            let given = ["cacert", "cert", "key", "with-client-auth"]
                .map(|end| format!("grpc-server-{end}"));
            let given = given
                .iter()
                .filter(|name| self.seen.contains(&name.as_str()));
            let given: Vec<_> = given.map(|name| format!("--{name}")).collect();
            if !given.is_empty() {
                let given = given.join(", ");
                let notice = format!(
                    "{given}: P4Runtime is served without TLS, since --grpc-server-ssl is not given"
                );
                self.notices.push(notice);
            }
            self.tls = Tls::default();
            return Ok(());
        }
        for (file, name) in [(certificate, "cert"), (key, "key")] {
            if file.is_none() {
                return fail(format!(
                    "--grpc-server-ssl: expected --grpc-server-{name} FILE beside it, found none"
                ));
            }
        }
        match (asks_clients, authorities) {
            (true, None) => fail("--grpc-server-with-client-auth: expected --grpc-server-cacert FILE with the authorities that sign clients' certificates, found none".to_owned()),
            (false, Some(_)) => {
                self.tls.authorities = None;
                let notice = "--grpc-server-cacert: clients are not asked for certificates, since --grpc-server-with-client-auth is not given";
                self.notices.push(notice.to_owned());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns the equivalent command line of `reprise-switch`.
    fn words(&self) -> Result<Vec<String>, Mistake> {
        let mut words = vec!["reprise-switch".to_owned()];
        let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
        for port in &self.ports {
            option("-i", self.port(port)?);
        }
        option("--device-id", self.device_id.to_string());
        option("--grpc", self.grpc.clone());
        let Tls {
            certificate,
            key,
            authorities,
            ..
        } = &self.tls;
        for (name, file) in [
            ("--tls-cert", certificate),
            ("--tls-key", key),
            ("--tls-client-ca", authorities),
        ] {
            if let Some(file) = file {
                option(name, file.clone());
            }
        }
        option("--thrift-port", self.thrift_port.to_string());
        option("--thrift-addr", self.thrift_addr.to_string());
        option("--egress-queue", QUEUE_PACKETS.to_string());
        if let Some(port) = self.cpu_port {
            option("--cpu-port", port.to_string());
        }
        // The user has chosen an address on the command line on purpose, so `--insecure` is implied.
        if self.seen.contains(&"grpc-server-addr") && !self.tls.is_on {
            words.push("--insecure".to_owned());
        }
        if let Some(program) = &self.program {
            words.extend(["--".to_owned(), program.clone()]);
        }
        Ok(words)
    }

    /// Translates a port to the syntax of `reprise-switch`.
    fn port(&self, given: &str) -> Result<String, Mistake> {
        let expected = "--interface: expected PORT@INTERFACE, for example 1@veth1";
        let Some((number, interface)) = given.split_once('@') else {
            return fail(format!("{expected}, found \"{given}\""));
        };
        let max = limits::PORT_ID_MAX;
        if !number.parse::<u16>().is_ok_and(|number| number <= max) {
            return fail(format!(
                "{expected}; \"{number}\" in \"{given}\" is no port number from 0 to {max}"
            ));
        }
        Ok(if self.uses_files {
            format!("{number}@pcap:{interface}_in.pcap,{interface}_out.pcap")
        } else {
            given.to_owned()
        })
    }
}

/// The version of BMv2's JSON that the loader reads.
const JSON_VERSION: [u32; 2] = [2, 23];

fn fail<T>(message: String) -> Result<T, Mistake> {
    Err(Mistake(message))
}

/// Returns clap's message without the usage of `reprise-switch`, a command that the user did not type.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

fn number<T>(spec: &Spec, text: &str, min: T, max: T) -> Result<T, Mistake>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display + Copy,
{
    match text.parse() {
        Ok(number) if min <= number && number <= max => Ok(number),
        _ => fail(format!(
            "--{}: expected a number from {min} to {max}, found \"{text}\"",
            spec.long
        )),
    }
}

/// Checks a file name, which must not be empty.
fn file(spec: &Spec, text: &str) -> Result<Option<String>, Mistake> {
    path(spec, text)?;
    Ok(Some(text.to_owned()))
}

fn path(spec: &Spec, text: &str) -> Result<PathBuf, Mistake> {
    if text.is_empty() {
        fail(format!("--{}: expected a file, found nothing", spec.long))
    } else {
        Ok(PathBuf::from(text))
    }
}

/// Returns the folder that `--pcap` names; fails if the folder does not exist.
fn folder(text: &str) -> Result<PathBuf, Mistake> {
    let folder = PathBuf::from(if text.is_empty() { "." } else { text });
    if folder.is_dir() {
        Ok(folder)
    } else {
        fail(format!("--pcap: expected a folder, found \"{text}\""))
    }
}

fn level(text: &str) -> Result<Option<Severity>, Mistake> {
    Ok(Some(match text {
        "trace" => Severity::Trace,
        "debug" => Severity::Debug,
        "info" => Severity::Info,
        "warn" => Severity::Warn,
        "error" => Severity::Error,
        "off" => return Ok(None),
        _ => {
            return fail(format!(
                "--log-level: expected trace, debug, info, warn, error or off, found \"{text}\""
            ));
        }
    }))
}

/// Checks P4Runtime's address: HOST:PORT, or a Unix socket's path after `unix:`.
fn grpc_address(spec: &Spec, text: &str) -> Result<String, Mistake> {
    let Some(path) = unix_path(text) else {
        return Ok(address(spec, text)?.to_string());
    };
    path.map_err(|why| Mistake(format!("--{}: {why}", spec.long)))?;
    Ok(text.to_owned())
}

/// Parses an address to serve on, and looks up a host name.
fn address(spec: &Spec, text: &str) -> Result<SocketAddr, Mistake> {
    let found = text.to_socket_addrs().ok();
    let found = found.and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| {
        Mistake(format!(
            "--{}: expected HOST:PORT, for example 127.0.0.1:9559, found \"{text}\"",
            spec.long
        ))
    })
}

fn ip_address(spec: &Spec, text: &str) -> Result<IpAddr, Mistake> {
    text.parse().map_err(|_| {
        Mistake(format!(
            "--{}: expected an IP address, for example 0.0.0.0, found \"{text}\"",
            spec.long
        ))
    })
}

fn help(name: Name) -> String {
    let mut out = format!(
        "Usage: {} [options] PROGRAM.json [-- options of the target]\n\nReprise's switch with BMv2's command line; docs/from-bmv2.md has the differences.\n",
        name.as_str()
    );
    let parts = [("Options", false), ("Options behind \"--\"", true)];
    for (title, is_behind) in parts {
        let _ = write!(out, "\n{title}:\n");
        let specs = OPTIONS.iter().filter(|spec| spec.place.is_of(name));
        for spec in specs.filter(|spec| (spec.place != Place::General) == is_behind) {
            let _ = writeln!(out, "  {:<38} {}", shown(spec), spec.help);
        }
    }
    out
}

fn shown(spec: &Spec) -> String {
    let short = spec
        .short
        .map_or(String::new(), |letter| format!("-{letter}, "));
    let value = match spec.takes {
        Takes::Nothing => String::new(),
        Takes::Value(value) => format!(" {value}"),
        Takes::Optional(value) => format!(" [{value}]"),
    };
    format!("{short}--{}{value}", spec.long)
}

#[cfg(test)]
mod tests;
