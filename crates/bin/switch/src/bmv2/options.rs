//! The options of `simple_switch` and `simple_switch_grpc`: their names, their values and what they do in this switch.
//!
//! Names and defaults are those of behavioral-model 1.15; only `--thrift-addr` is this switch's own.

use super::{Mistake, Name};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    Help,
    Version,
    JsonVersion,
    Interface,
    Pcap,
    UseFiles,
    ThriftPort,
    ThriftAddr,
    DeviceId,
    LogConsole,
    LogFile,
    LogFlush,
    NotificationsAddr,
    LogLevel,
    LogFileMaxSize,
    LogFileMaxFiles,
    DumpPacketData,
    NoP4,
    MaxPortCount,
    GrpcServerAddr,
    GrpcSsl,
    GrpcCaCert,
    GrpcCert,
    GrpcKey,
    GrpcClientAuth,
    CpuPort,
    DropPort,
    PriorityQueues,
    /// The option sets a maximum, which this switch always exceeds; so the option's value is only checked to be a
    /// number.
    Number,
    /// The option has no effect, because this switch always behaves as the option demands.
    NoEffect,
    /// The option is accepted without effect; the text is the reason.
    Notice(&'static str),
    /// The option is refused; the text is the reason.
    Refused(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    /// One word. The text is the word's name in the help.
    Value(&'static str),
    /// An optional word.
    Optional(&'static str),
}

/// Whether an option stands before or after the `--`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    General,
    /// After the `--`, in both programs.
    Target,
    /// After the `--`, in this program only.
    TargetOf(Name),
}

impl Place {
    fn is_behind(self) -> bool {
        self != Place::General
    }

    /// Whether the program has options in this place.
    pub(super) fn is_of(self, name: Name) -> bool {
        !matches!(self, Place::TargetOf(other) if other != name)
    }
}

#[derive(Debug)]
pub(super) struct Spec {
    /// The option's long name, without the dashes.
    pub(super) long: &'static str,
    pub(super) short: Option<char>,
    pub(super) takes: Takes,
    pub(super) place: Place,
    pub(super) does: Does,
    pub(super) help: &'static str,
}

use Does as D;
use Takes::{Nothing, Optional, Value};

const NO_NANOMSG: Does =
    D::Notice("nothing is published there; --log-console shows what happens to packets");
const NO_DEBUGGER: Does = D::Notice(
    "there is no debugger here; --log-console shows parser states, tables and actions of every packet",
);

const fn general(long: &'static str, takes: Takes, does: Does, help: &'static str) -> Spec {
    Spec {
        long,
        short: None,
        takes,
        place: Place::General,
        does,
        help,
    }
}

const fn short(letter: char, spec: Spec) -> Spec {
    Spec {
        short: Some(letter),
        ..spec
    }
}

const fn behind(place: Place, spec: Spec) -> Spec {
    Spec { place, ..spec }
}

const fn of_grpc(spec: Spec) -> Spec {
    behind(Place::TargetOf(Name::SimpleSwitchGrpc), spec)
}

pub(super) const OPTIONS: &[Spec] = &[
    short('h', general("help", Nothing, D::Help, "this list")),
    short(
        'v',
        general("version", Nothing, D::Version, "which build this is"),
    ),
    general(
        "json-version",
        Nothing,
        D::JsonVersion,
        "the version of BMv2's JSON that is read",
    ),
    short(
        'i',
        general(
            "interface",
            Value("PORT@INTERFACE"),
            D::Interface,
            "a port, one option each",
        ),
    ),
    general(
        "pcap",
        Optional("DIR"),
        D::Pcap,
        "record each interface to INTERFACE_in.pcap and INTERFACE_out.pcap [default folder: .]",
    ),
    general(
        "use-files",
        Value("SECONDS"),
        D::UseFiles,
        "read INTERFACE_in.pcap and write INTERFACE_out.pcap in place of interfaces, after so many seconds",
    ),
    general(
        "thrift-port",
        Value("PORT"),
        D::ThriftPort,
        "serve BMv2's Thrift services on this port of --thrift-addr [default: 9090]",
    ),
    general(
        "thrift-addr",
        Value("IP"),
        D::ThriftAddr,
        "the address of the Thrift services, 0.0.0.0 to let other machines in; BMv2 has no such option, and serves on 0.0.0.0 [default: 127.0.0.1]",
    ),
    general(
        "device-id",
        Value("N"),
        D::DeviceId,
        "the device id that P4Runtime requests carry [default: 0]",
    ),
    general(
        "log-console",
        Nothing,
        D::LogConsole,
        "log on standard output; the interpreter runs the program, many times slower",
    ),
    general(
        "log-file",
        Value("FILE"),
        D::LogFile,
        "log to FILE.txt; as slow as --log-console",
    ),
    short(
        'L',
        general(
            "log-level",
            Value("LEVEL"),
            D::LogLevel,
            "trace, debug, info, warn, error or off [default: trace]",
        ),
    ),
    general(
        "log-flush",
        Nothing,
        D::LogFlush,
        "write the log after each packet, even if other packets wait",
    ),
    general(
        "log-file-max-size",
        Value("BYTES"),
        D::LogFileMaxSize,
        "begin another file after so many bytes [default: 5242880]",
    ),
    general(
        "log-file-max-files",
        Value("N"),
        D::LogFileMaxFiles,
        "how many older files are kept, FILE.1.txt and on [default: 3]",
    ),
    general(
        "dump-packet-data",
        Value("BYTES"),
        D::DumpPacketData,
        "log so many bytes of each frame that is received or sent [default: 0]",
    ),
    general(
        "no-p4",
        Nothing,
        D::NoP4,
        "start without a program: a controller brings it",
    ),
    general(
        "max-port-count",
        Value("N"),
        D::MaxPortCount,
        "the most ports of -i [default: 512]",
    ),
    general(
        "nanolog",
        Value("ADDRESS"),
        NO_NANOMSG,
        "accepted with a notice",
    ),
    general(
        "notifications-addr",
        Value("ADDRESS"),
        D::NotificationsAddr,
        "publish digests, port changes and aged entries by nanomsg: ipc://PATH or tcp://HOST:PORT",
    ),
    general("debugger", Nothing, NO_DEBUGGER, "accepted with a notice"),
    general(
        "debugger-addr",
        Value("ADDRESS"),
        NO_DEBUGGER,
        "accepted with a notice",
    ),
    general(
        "packet-in",
        Value("ADDRESS"),
        D::Refused(
            "frames cannot come by nanomsg; give interfaces (-i 1@veth1) or captures (--use-files 0)",
        ),
        "refused: frames by nanomsg",
    ),
    general(
        "restore-state",
        Value("FILE"),
        D::Refused(
            "BMv2's state file cannot be read; install the same entries by P4Runtime or a command file",
        ),
        "refused: BMv2's state file",
    ),
    behind(
        Place::Target,
        general(
            "drop-port",
            Value("PORT"),
            D::DropPort,
            "must be 511, the default",
        ),
    ),
    behind(
        Place::Target,
        general(
            "priority-queues",
            Value("N"),
            D::PriorityQueues,
            "1 to 8: there are always 8 queues a port",
        ),
    ),
    behind(
        Place::Target,
        general(
            "max-mc-groups",
            Value("N"),
            D::Number,
            "accepted: there is room for more",
        ),
    ),
    behind(
        Place::Target,
        general(
            "max-l1-entries",
            Value("N"),
            D::Number,
            "accepted: there is room for more",
        ),
    ),
    behind(
        Place::Target,
        general(
            "max-l2-entries",
            Value("N"),
            D::Number,
            "accepted: there is room for more",
        ),
    ),
    behind(
        Place::Target,
        general(
            "load-modules",
            Value("FILES"),
            D::Refused("libraries with externs for BMv2 cannot be loaded"),
            "refused: BMv2's externs in C++",
        ),
    ),
    behind(
        Place::TargetOf(Name::SimpleSwitch),
        general(
            "enable-swap",
            Nothing,
            D::NoEffect,
            "a program may always be replaced",
        ),
    ),
    of_grpc(general(
        "disable-swap",
        Nothing,
        D::Notice("a controller may replace the program nevertheless"),
        "accepted with a notice",
    )),
    of_grpc(general(
        "grpc-server-addr",
        Value("ADDRESS"),
        D::GrpcServerAddr,
        "serve P4Runtime and gNMI there, unencrypted without --grpc-server-ssl [default: 127.0.0.1:9559]",
    )),
    of_grpc(general(
        "cpu-port",
        Value("PORT"),
        D::CpuPort,
        "the port of packet-in and packet-out [default: none]",
    )),
    of_grpc(general(
        "grpc-server-ssl",
        Nothing,
        D::GrpcSsl,
        "serve P4Runtime and gNMI over TLS, with --grpc-server-cert and --grpc-server-key",
    )),
    of_grpc(general(
        "grpc-server-cacert",
        Value("FILE"),
        D::GrpcCaCert,
        "the authorities of clients' certificates, for --grpc-server-with-client-auth; PEM",
    )),
    of_grpc(general(
        "grpc-server-cert",
        Value("FILE"),
        D::GrpcCert,
        "the switch's certificate; PEM",
    )),
    of_grpc(general(
        "grpc-server-key",
        Value("FILE"),
        D::GrpcKey,
        "its private key; PEM",
    )),
    of_grpc(general(
        "grpc-server-with-client-auth",
        Nothing,
        D::GrpcClientAuth,
        "let in only clients with a certificate of an authority in --grpc-server-cacert",
    )),
    of_grpc(general(
        "dp-grpc-server-addr",
        Value("ADDRESS"),
        D::Refused("frames cannot come by gRPC; give interfaces (-i 1@veth1)"),
        "refused: frames by gRPC",
    )),
];

#[derive(Debug)]
pub(super) struct Given {
    pub(super) spec: &'static Spec,
    /// `None` if the option has no value.
    pub(super) value: Option<String>,
}

/// Splits a command line into its options, in order, and the other words.
pub(super) fn split(
    name: Name,
    words: impl IntoIterator<Item = String>,
) -> Result<(Vec<Given>, Vec<String>), Mistake> {
    let (mut given, mut others) = (Vec::new(), Vec::new());
    let mut words = words.into_iter().peekable();
    let mut is_behind = false;
    while let Some(word) = words.next() {
        if word == "--" {
            is_behind = true;
            continue;
        }
        if word == "-" || !word.starts_with('-') {
            others.push(word);
            continue;
        }
        let (spec, attached) = recognise(name, &word, is_behind)?;
        let value = match (spec.takes, attached) {
            (Takes::Nothing, None) => None,
            (Takes::Nothing, Some(value)) => {
                let long = spec.long;
                return fail(format!("--{long}: expected no value, found \"{value}\""));
            }
            (Takes::Value(_) | Takes::Optional(_), Some(value)) => Some(value),
            (Takes::Value(what), None) => match words.next_if(|next| next != "--") {
                Some(value) => Some(value),
                None => return fail(format!("--{}: expected {what}, found nothing", spec.long)),
            },
            (Takes::Optional(_), None) => words.next_if(|next| is_folder(next)),
        };
        given.push(Given { spec, value });
    }
    Ok((given, others))
}

/// Whether the word after `--pcap` is its folder, and not an option or the program.
fn is_folder(word: &str) -> bool {
    !word.starts_with('-') && !word.ends_with(".json") && !word.ends_with(".p4")
}

fn fail<T>(message: String) -> Result<T, Mistake> {
    Err(Mistake(message))
}

/// Finds the option that a word names in full or by a unique prefix, and the value attached to it.
fn recognise(
    name: Name,
    word: &str,
    is_behind: bool,
) -> Result<(&'static Spec, Option<String>), Mistake> {
    let here = || {
        let specs = OPTIONS.iter().filter(move |spec| spec.place.is_of(name));
        specs.filter(move |spec| spec.place.is_behind() == is_behind)
    };
    let Some(text) = word.strip_prefix("--") else {
        let mut letters = word.chars();
        letters.next();
        let letter = letters.next();
        let attached = letters.as_str();
        let attached = (!attached.is_empty()).then(|| attached.to_owned());
        let spec = here().find(|spec| spec.short.is_some() && spec.short == letter);
        return match spec {
            Some(spec) => Ok((spec, attached)),
            None => fail(unknown(name, word, word.trim_start_matches('-'), is_behind)),
        };
    };
    let (long, attached) = match text.split_once('=') {
        Some((long, value)) => (long, Some(value.to_owned())),
        None => (text, None),
    };
    if let Some(spec) = here().find(|spec| spec.long == long) {
        return Ok((spec, attached));
    }
    // Only BMv2's own options may be abbreviated; BMv2 has no `--thrift-addr`.
    let shortened = here().filter(|spec| spec.does != Does::ThriftAddr);
    let candidates: Vec<_> = shortened
        .filter(|spec| spec.long.starts_with(long))
        .collect();
    match candidates[..] {
        [spec] if !long.is_empty() => Ok((spec, attached)),
        [_, _, ..] if !long.is_empty() => {
            let names: Vec<_> = candidates.iter().map(|spec| spec.long).collect();
            let names = names.join(" or --");
            fail(format!("option --{long} may be --{names}: write it out"))
        }
        _ => fail(unknown(name, &format!("--{long}"), long, is_behind)),
    }
}

/// The message for an option that is unknown here: where it belongs, or which option resembles it most.
fn unknown(name: Name, shown: &str, long: &str, is_behind: bool) -> String {
    if let Some(spec) = OPTIONS.iter().find(|spec| spec.long == long) {
        if !spec.place.is_of(name) {
            let other = name.other().as_str();
            return format!(
                "option {shown} belongs to {other}, not to {}",
                name.as_str()
            );
        }
        return if is_behind {
            format!("option {shown} stands before the \"--\", with the general options")
        } else {
            format!(
                "option {shown} stands behind a \"--\": {} ... prog.json -- {shown}",
                name.as_str()
            )
        };
    }
    let specs = OPTIONS.iter().filter(|spec| spec.place.is_of(name));
    let nearest = specs.min_by_key(|spec| names::distance(long.as_bytes(), spec.long.as_bytes()));
    let nearest = nearest.map_or_else(String::new, |spec| {
        if spec.place.is_behind() {
            format!("; the nearest is --{}, behind a \"--\"", spec.long)
        } else {
            format!("; the nearest is --{}", spec.long)
        }
    });
    format!("unknown option {shown}{nearest}; --help lists all")
}
