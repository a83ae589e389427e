//! Defines the command line of `reprise`: its commands and options, and the texts of `--help`.

mod aom;
mod examples;
mod other_program;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Once;
use std::time::Duration;

use clap::builder::Styles;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use conference::address::Mac;
use p4runtime_client::{SwitchAddress, TlsFiles};

use crate::compiler::CompilerArgs;
use crate::failure::Failure;
use crate::output;

pub use aom::{Aom, AomEpoch, AomGroup, AomMember, AomVariant, Serve};
use examples::{
    AOM_EXAMPLES, APPLY_EXAMPLES, CHECK_EXAMPLES, COMPILE_EXAMPLES, DOCTOR_EXAMPLES,
    ENTRIES_EXAMPLES, EXAMPLES, EXPORT_EXAMPLES, FMT_EXAMPLES, REFRESH_EXAMPLES, SHOW_EXAMPLES,
    WATCH_EXAMPLES, of_two_columns, p4rt_help,
};
pub use other_program::{OfAService, Service};

/// Controller of the Reprise selective forwarding unit, and its P4 compiler.
#[derive(Parser, Debug)]
#[command(name = "reprise", version, after_long_help = EXAMPLES, max_term_width = 100)]
pub struct Args {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Subcommands of `reprise aom` that send requests to the configuration service and do not contact a switch.
const ASK_THE_SERVICE: &[&str] = &["group", "member", "epoch"];

/// The options that say which switch a command uses, and how the command becomes the switch's primary controller.
const OF_A_SWITCH: &[&str] = &[
    "switch_address",
    "tls_ca",
    "tls_cert",
    "tls_key",
    "tls_server_name",
    "device_id",
    "wait_s",
    "takeover",
];

impl Args {
    /// Parses the command line of this process; exits if it is invalid.
    pub fn from_command_line() -> Args {
        let matches = Args::offline_without_switch().try_get_matches();
        let args = matches.and_then(|matches| Args::from_arg_matches(&matches));
        args.unwrap_or_else(|error| output::of_command_line(&error))
    }

    pub fn offline_without_switch() -> clap::Command {
        let command = Args::command();
        let of_a_switch: Vec<clap::Arg> = command
            .get_arguments()
            .filter(|arg| OF_A_SWITCH.contains(&arg.get_id().as_str()))
            .map(|arg| arg.clone().hide(true))
            .collect();
        let hide = |command: clap::Command, names: &[&str]| {
            names.iter().fold(command, |command, name| {
                command.mut_subcommand(name, |offline| offline.args(of_a_switch.clone()))
            })
        };
        let sections = Section::all();
        let offline = sections.iter().filter(|section| section.is_offline);
        let offline: Vec<&str> = offline.flat_map(Section::names).collect();
        let template = help_template(&sections, command.get_styles());
        hide(command.help_template(template), &offline)
            .mut_subcommand("aom", |aom| hide(aom, ASK_THE_SERVICE))
    }
}

#[derive(clap::Args, Clone, Debug)]
pub struct Global {
    /// Where the switch's P4Runtime server listens; unix:PATH is its Unix socket.
    // The id is not `address`, since some commands have an argument of that name.
    #[arg(
        id = "switch_address",
        long = "switch",
        global = true,
        env = "REPRISE_SWITCH",
        value_name = "HOST:PORT",
        default_value = "127.0.0.1:9559",
        display_order = 800
    )]
    address: String,
    /// Connect to the switch with TLS; an authority in this PEM file must have signed the switch's certificate.
    #[arg(
        long,
        global = true,
        env = "REPRISE_TLS_CA",
        value_name = "FILE",
        display_order = 802
    )]
    tls_ca: Option<PathBuf>,
    /// A PEM file with the certificate to show to the switch, if it asks for one.
    #[arg(
        long,
        global = true,
        env = "REPRISE_TLS_CERT",
        value_name = "FILE",
        display_order = 803
    )]
    tls_cert: Option<PathBuf>,
    /// The private key of that certificate, a PEM file.
    #[arg(
        long,
        global = true,
        env = "REPRISE_TLS_KEY",
        value_name = "FILE",
        display_order = 804
    )]
    tls_key: Option<PathBuf>,
    /// The name that the switch's certificate must have [default: the host of --switch].
    #[arg(
        long,
        global = true,
        env = "REPRISE_TLS_SERVER_NAME",
        value_name = "NAME",
        display_order = 805
    )]
    tls_server_name: Option<String>,
    /// The switch's P4Runtime device number; that of simple_switch_grpc is 0.
    #[arg(
        long,
        global = true,
        env = "REPRISE_DEVICE_ID",
        value_name = "NUMBER",
        default_value_t = 1,
        display_order = 801
    )]
    pub device_id: u64,
    /// How long a command that changes something waits until no other controller is primary [default: 60; `aom serve`: 3].
    #[arg(
        long = "wait",
        global = true,
        value_name = "SECONDS",
        display_order = 901
    )]
    wait_s: Option<u64>,
    /// Take the primary role from another controller in place of waiting until it ends.
    #[arg(long, global = true, display_order = 902)]
    pub takeover: bool,
    /// Print JSON instead of text: one document, or a document a line if the command keeps running.
    #[arg(long, global = true, display_order = 900)]
    pub json: bool,
}

impl Global {
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How long to wait for the primary role: the value of `--wait`, or `usual` if the option is absent.
    pub fn wait(&self, usual: Duration) -> Duration {
        self.wait_s.map_or(usual, Duration::from_secs)
    }

    /// Sets the waiting time to 0, so that commands do not wait for the primary role from now on.
    pub fn never_wait(&mut self) {
        self.wait_s = Some(0);
    }

    /// Returns the switch's address, and what the options say about TLS.
    pub fn switch(&self) -> Result<SwitchAddress, Failure> {
        let address = self.address.clone();
        let identity = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            (Some(_), None) => {
                return Err(Failure::new(
                    "--tls-cert: expected --tls-key FILE beside it, found none",
                ));
            }
            (None, Some(_)) => {
                return Err(Failure::new(
                    "--tls-key: expected --tls-cert FILE beside it, found none",
                ));
            }
        };
        let Some(authorities) = self.tls_ca.clone() else {
            let alone = identity.map(|_| "--tls-cert");
            let alone = alone.or(self.tls_server_name.as_ref().map(|_| "--tls-server-name"));
            return match alone {
                Some(option) => Err(Failure::new(format!(
                    "{option}: expected --tls-ca FILE beside it for a TLS connection, found none"
                ))),
                None => Ok(SwitchAddress::plain(address)),
            };
        };
        let tls = TlsFiles {
            authorities,
            identity,
            server_name: self.tls_server_name.clone(),
        };
        // The warning is printed only once, although a command may call this function several times.
        static WARNED: Once = Once::new();
        WARNED.call_once(|| {
            if let Some(said) = tls.key_open_to_others() {
                output::error_line(format_args!("warning: {said}"));
            }
        });
        Ok(SwitchAddress {
            address,
            tls: Some(tls),
        })
    }
}

/// The commands, in the sections of `--help`.
#[derive(Subcommand, Debug)]
pub enum Command {
    #[command(flatten)]
    P4(P4),
    #[command(flatten)]
    Switch(AnySwitch),
    #[command(flatten)]
    Service(Service),
    #[command(flatten)]
    Conference(Conference),
    #[command(flatten)]
    Machine(Machine),
}

/// Commands that `--help` lists together.
struct Section {
    title: &'static str,
    /// Whether the commands work without a switch. If they do, their help omits the options about a switch.
    is_offline: bool,
    commands: clap::Command,
}

impl Section {
    fn all() -> [Section; 5] {
        [
            Section::of::<P4>("P4", true),
            Section::of::<AnySwitch>("Any switch", false),
            Section::of::<Service>("Conferences that people join", true),
            Section::of::<Conference>("Conferences by hand, and ordered multicast", false),
            Section::of::<Machine>("This machine", true),
        ]
    }

    fn of<C: Subcommand>(title: &'static str, is_offline: bool) -> Section {
        Section {
            title,
            is_offline,
            commands: C::augment_subcommands(clap::Command::new("reprise")),
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.commands.get_subcommands().map(clap::Command::get_name)
    }
}

/// Returns the template of `reprise --help`, which lists the commands in sections. clap itself lists all commands under
/// one heading.
fn help_template(sections: &[Section], styles: &Styles) -> String {
    let header = styles.get_header();
    let names = sections.iter().flat_map(Section::names);
    let width = names.map(str::len).max().unwrap_or(0);
    let mut template = "{about-with-newline}\n{usage-heading} {usage}\n\n".to_owned();
    for section in sections {
        template.push_str(&format!("{header}{}:{header:#}\n", section.title));
        for command in section.commands.get_subcommands() {
            let about = command.get_about().map(ToString::to_string);
            let line = of_two_columns(command.get_name(), width, &about.unwrap_or_default());
            template.push_str(&line);
            template.push('\n');
        }
        template.push('\n');
    }
    template + &format!("{header}Options:{header:#}\n{{options}}{{after-help}}")
}

/// Commands that work on files, without a switch.
#[derive(Subcommand, Debug)]
pub enum P4 {
    /// Compile a P4 program to NAME.json, NAME.p4info.txtpb and NAME.p4info.bin.
    #[command(after_help = COMPILE_EXAMPLES)]
    Compile {
        /// The P4_16 program, for v1model; `-` is standard input.
        program: PathBuf,
        /// Directory to write to; created if it does not exist.
        #[arg(short, long, value_name = "DIR", default_value = ".")]
        output: PathBuf,
        /// Only preprocess: the program after includes and macros goes to standard output.
        #[arg(short = 'E', conflicts_with = "output")]
        preprocess: bool,
        #[command(flatten)]
        compiler: CompilerArgs,
    },
    /// Check P4 programs and write nothing.
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// The P4_16 programs, for v1model; `-` is standard input.
        #[arg(required = true, value_name = "PROGRAM")]
        programs: Vec<PathBuf>,
        #[command(flatten)]
        compiler: CompilerArgs,
    },
    /// Explain a code of the compiler, with a wrong and a right example.
    #[command(
        after_help = "Examples:\n  reprise explain E0301\n  reprise explain      # all codes"
    )]
    Explain {
        /// The code, with or without its letter; left out: a list of all codes.
        code: Option<String>,
    },
    /// Format P4 source, in place.
    #[command(after_help = FMT_EXAMPLES)]
    Fmt {
        /// The files; `-` formats standard input to standard output.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Write nothing, and fail if a file is not formatted.
        #[arg(long)]
        check: bool,
        /// Look for included files here too: how P4 is parsed depends on the types that they declare.
        #[arg(short = 'I', value_name = "DIR")]
        include: Vec<PathBuf>,
    },
    /// Run a packet test (STF, p4c's format) on the interpreter, in this process.
    #[command(
        after_help = "Example:\n  reprise stf testdata/stf/stack_push_pop.p4 testdata/stf/stack_push_pop.stf --trace"
    )]
    Stf {
        /// The P4_16 program, for v1model, or BMv2 JSON (.json).
        program: PathBuf,
        /// The test; docs/conformance.md has the format.
        test: PathBuf,
        #[command(flatten)]
        compiler: CompilerArgs,
        /// Print a trace of each packet on standard error.
        #[arg(long)]
        trace: bool,
    },
}

/// A switch, whatever its program.
#[derive(Subcommand, Debug)]
pub enum AnySwitch {
    /// Load a program into the switch, or show which one it has.
    #[command(subcommand)]
    Pipeline(Pipeline),
    /// Table entries, multicast groups and clone sessions of any program, from a runtime file.
    #[command(subcommand)]
    Entries(Entries),
    /// A P4Runtime shell for any switch and any program: entries, groups, counters, meters, registers,
    /// packets, digests, by name and with Tab completion; also runs commands from a file or a pipe.
    #[command(after_long_help = p4rt_help())]
    P4rt(P4rt),
    /// Watch a switch, whatever its program: rates, time in the switch, drops by reason, every second.
    #[command(after_help = WATCH_EXAMPLES)]
    Watch {
        /// End after this many samples; left out: run until interrupted.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        times: Option<u32>,
    },
}

/// A switch with one of this repository's programs.
#[derive(Subcommand, Debug)]
pub enum Conference {
    /// The SFU's own addresses, one a port: presenters send to them, copies come from them.
    #[command(subcommand)]
    Address(Address),
    /// Groups: one presenter and those who view it.
    #[command(subcommand)]
    Group(Group),
    /// Viewers of a group.
    #[command(subcommand)]
    Viewer(Viewer),
    /// Show groups and viewers with totals and rates, verdicts, ports and drops.
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        /// Repeat every second until interrupted. With --json: one line each time.
        #[arg(long)]
        watch: bool,
    },
    /// Bring the switch to exactly the state of a file, and print the difference.
    #[command(after_help = APPLY_EXAMPLES)]
    Apply {
        /// The file, see below.
        file: PathBuf,
        /// Only print the difference.
        #[arg(long)]
        dry_run: bool,
    },
    /// Write the state of the switch, or of a file, as a file.
    #[command(after_help = EXPORT_EXAMPLES)]
    Export {
        /// A conference.yaml to write instead of the switch's state; no switch is contacted.
        #[arg(requires = "program")]
        file: Option<PathBuf>,
        /// The program for FILE: P4 source, or compiled JSON with its P4Info beside it.
        #[arg(long, value_name = "PROGRAM", requires = "file")]
        program: Option<PathBuf>,
        /// The form: a file for `reprise apply`, or the P4Runtime WriteRequest (protobuf text) that
        /// brings an empty switch to that state, for `reprise-switch --entries`.
        #[arg(long, value_enum, default_value_t = ExportFormat::Conference)]
        format: ExportFormat,
        /// The file to write; left out, or `-`: standard output.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Authenticated ordered multicast: a sequencer's groups, members and epochs.
    #[command(subcommand, after_long_help = AOM_EXAMPLES)]
    Aom(Aom),
}

/// The computer that the command runs on.
#[derive(Subcommand, Debug)]
pub enum Machine {
    /// Check what this machine offers a switch, or what is between it and a conference service; changes nothing.
    #[command(after_long_help = DOCTOR_EXAMPLES)]
    Doctor {
        /// Interfaces to look at; without any, all Ethernet ones. Exit code 1 if one that is named
        /// cannot be a port.
        #[arg(value_name = "INTERFACE")]
        interfaces: Vec<String>,
        #[command(flatten)]
        service: OfAService,
    },
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportFormat {
    Conference,
    P4runtime,
}

#[derive(Subcommand, Debug)]
pub enum Pipeline {
    /// Load a program. The switch discards all state of the previous program.
    #[command(
        after_help = "Examples:\n  reprise pipeline set p4/sfu.p4\n  reprise pipeline set build/sfu.json --p4info build/sfu.p4info.txtpb"
    )]
    Set {
        /// P4 source, or BMv2 JSON.
        program: PathBuf,
        /// P4Info of the JSON; left out: NAME.p4info.txtpb or NAME.p4info.bin beside it.
        #[arg(long, value_name = "FILE")]
        p4info: Option<PathBuf>,
    },
    /// Show the program in the switch: its tables, registers and counters.
    Show,
}

#[derive(clap::Args, Debug)]
pub struct P4rt {
    /// Files of commands, one a line; without any and without -c: standard input, or a prompt on a
    /// terminal.
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Run this command, or the lines of it; may be given several times.
    #[arg(short = 'c', long = "command", value_name = "COMMAND")]
    pub commands: Vec<String>,
    /// Go on after a command that failed; the exit code is still 1.
    #[arg(short, long)]
    pub keep_going: bool,
    /// Take names and types from this P4Info and not from the switch.
    #[arg(long, value_name = "FILE")]
    pub p4info: Option<PathBuf>,
    /// The role to write with; left out: the default role, which may write everything.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    pub role: String,
    /// Become primary with exactly this election id; left out: with one above the highest id so far.
    #[arg(long, value_name = "NUMBER", value_parser = election_id, conflicts_with = "takeover")]
    pub election_id: Option<u128>,
    /// Never become primary: reads only.
    #[arg(long, conflicts_with_all = ["election_id", "takeover"])]
    pub read_only: bool,
    /// How long one read or write may take, e.g. 0.5; left out: 30 seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub deadline: Option<Duration>,
}

/// Parses seconds with up to nine decimals.
fn seconds(text: &str) -> Result<Duration, String> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let found = text.parse().ok().filter(|_| text.chars().all(is_number));
    let found = found.and_then(|it| Duration::try_from_secs_f64(it).ok());
    let found = found.filter(|it| !it.is_zero());
    found.ok_or_else(|| "expected a number of seconds greater than 0, e.g. 5 or 0.5".to_owned())
}

/// Parses an election id. 0 is refused: P4Runtime never makes a controller with this id primary.
fn election_id(text: &str) -> Result<u128, String> {
    let found = text.parse().ok().filter(|id| *id > 0);
    found.ok_or_else(|| format!("expected a number from 1 to {}", u128::MAX))
}

#[derive(Subcommand, Debug)]
pub enum Entries {
    /// Write the entries of a runtime file (the JSON of the P4 tutorials) to the switch, and print the
    /// difference. Entries that have another value are modified, missing entries are inserted.
    #[command(after_help = ENTRIES_EXAMPLES)]
    Apply {
        /// The file, sX-runtime.json; `-` is standard input.
        file: PathBuf,
        /// Load the program that the file names (bmv2_json, p4info), unless the switch runs it already.
        /// Left out: the switch must already run the file's program.
        #[arg(long)]
        pipeline: bool,
        /// Remove entries, groups and sessions that are not in the file. Default actions stay.
        #[arg(long)]
        replace: bool,
        /// Only print the difference.
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Subcommand, Debug)]
pub enum Address {
    /// Set the SFU's own address on a port. It replaces the port's previous address; in the
    /// recirculation program, which serves one port, it replaces the address of any port.
    #[command(
        after_help = "Example:\n  reprise address set --port 1 --ip 10.0.1.100 --mac 02:00:00:00:01:64"
    )]
    Set {
        /// The port of the switch towards the presenters and viewers.
        #[arg(long)]
        port: u16,
        /// IPv4 address; no host on the network, and no interface of this machine, may have it too.
        #[arg(long)]
        ip: Ipv4Addr,
        /// Ethernet address; answers to ARP and the source of every copy have it.
        #[arg(long)]
        mac: Mac,
    },
    /// Delete the own address on a port that no viewer is on.
    #[command(after_help = "Example:\n  reprise address delete --port 2")]
    Delete {
        /// The switch's port.
        #[arg(long)]
        port: u16,
    },
    /// Show the own addresses.
    Show,
}

#[derive(Subcommand, Debug)]
pub enum Group {
    /// Add a group without viewers.
    #[command(
        after_help = "Example:\n  reprise group add --group 4 --ip 10.0.1.4 --mac 02:00:00:00:00:04"
    )]
    Add {
        /// Number of the group.
        #[arg(long)]
        group: u16,
        /// The presenter's IPv4 address.
        #[arg(long)]
        ip: Ipv4Addr,
        /// Serve packets with this Ethernet source only; left out: any (the presenter may be behind a
        /// router).
        #[arg(long)]
        mac: Option<Mac>,
        /// UDP port that the presenter sends to; left out: 5004. Replication program only.
        #[arg(long)]
        udp_port: Option<u16>,
    },
    /// Delete a group with its viewers.
    #[command(after_help = "Example:\n  reprise group delete --group 4")]
    Delete {
        /// Number of the group.
        #[arg(long)]
        group: u16,
    },
}

#[derive(Subcommand, Debug)]
pub enum Viewer {
    /// Add a viewer at the end of a group.
    #[command(after_help = "Example:\n  reprise viewer add --group 4 --ip 10.0.1.5")]
    Add {
        /// Number of the group.
        #[arg(long)]
        group: u16,
        /// The viewer's IPv4 address.
        #[arg(long)]
        ip: Ipv4Addr,
        /// The viewer's Ethernet address, or its router's; left out: looked up by ARP.
        #[arg(long)]
        mac: Option<Mac>,
        /// UDP port that copies go to; left out: the stream's own. Replication program only.
        #[arg(long)]
        udp_port: Option<u16>,
        /// The switch's port that the viewer is on; left out: the only port with an own address, or the
        /// port on which the viewer answers to ARP.
        #[arg(long)]
        port: Option<u16>,
    },
    /// Remove a viewer; the others keep their order.
    #[command(after_help = "Example:\n  reprise viewer remove --group 4 --ip 10.0.1.5")]
    Remove {
        /// Number of the group.
        #[arg(long)]
        group: u16,
        /// The viewer's IPv4 address.
        #[arg(long)]
        ip: Ipv4Addr,
        /// The viewer's UDP port, if the group has viewers with this address on several UDP ports.
        #[arg(long)]
        udp_port: Option<u16>,
    },
    /// Ask viewers whose MAC address was looked up by ARP whether they still have it, and update it.
    #[command(after_help = REFRESH_EXAMPLES)]
    Refresh {
        /// Ask only the viewers of this group.
        #[arg(long)]
        group: Option<u16>,
        /// Keep running: ask at this interval, and at once if an ARP packet of a viewer has another MAC or port.
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
        every: Option<u32>,
    },
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::{Args, Section};

    /// Returns the long help of a command and of all its subcommands, at every depth.
    fn with_all_below(command: &mut clap::Command) -> Vec<String> {
        let mut helps = vec![command.render_long_help().to_string()];
        for below in command.get_subcommands_mut() {
            helps.extend(with_all_below(below));
        }
        helps
    }

    #[test]
    fn the_files_of_the_examples_are_there() {
        let mut command = Args::offline_without_switch();
        command.build();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let helps = with_all_below(&mut command).join("\n");
        let words = helps.split(|c: char| c.is_whitespace() || c == '`');
        let named = words.filter(|word| word.starts_with("p4/") || word.starts_with("testdata/"));
        let files: Vec<&str> = named.filter(|word| !word.contains('*')).collect();
        assert!(files.len() > 5, "{files:?}");
        for file in files {
            assert!(root.join(file).is_file(), "{file}");
        }
    }

    #[test]
    fn the_shells_help_is_narrow_and_names_the_options_of_a_switch_together() {
        let mut command = Args::offline_without_switch();
        command.build();
        let help = command.find_subcommand_mut("p4rt").expect("the shell");
        let help = help.clone().max_term_width(80).render_long_help();
        let help = help.to_string();
        let commands = help.split("says more):").nth(1).expect("the commands");
        for line in commands.lines() {
            assert!(line.len() < 80, "{line}");
            assert!(line.is_empty() || !line.starts_with("  [counter"), "{line}");
        }
        let options: Vec<&str> = help
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("--"))
            .filter_map(|line| line.split(' ').next())
            .collect();
        let at = |name| options.iter().position(|it| *it == name).expect(name);
        assert_eq!(at("tls-server-name") - at("switch"), 5, "{options:?}");
        assert_eq!(at("device-id") - at("switch"), 1, "{options:?}");
    }

    #[test]
    fn every_command_is_in_one_section_of_the_help() {
        let sections = Section::all();
        let mut listed: Vec<&str> = sections.iter().flat_map(Section::names).collect();
        let mut command = Args::offline_without_switch();
        let all = command.get_subcommands();
        let mut all: Vec<String> = all.map(|it| it.get_name().to_owned()).collect();
        let help = command.render_long_help().to_string();
        listed.sort_unstable();
        all.sort_unstable();
        assert_eq!(listed, all);
        let (list, _) = help.split_once("Options:").expect("options");
        for name in all {
            let begin = format!("\n  {name} ");
            assert_eq!(list.matches(&begin).count(), 1, "{name}: {help}");
        }
        assert!(list.lines().all(|line| line.len() < 80), "{list}");
    }

    #[test]
    fn a_deadline_may_have_a_fraction() {
        let parsed = |text: &str| super::seconds(text).ok();
        assert_eq!(parsed("5"), Some(Duration::from_secs(5)));
        assert_eq!(parsed("0.5"), Some(Duration::from_millis(500)));
        for text in ["0", "-1", "1e3", "inf", "NaN", "", "half", "1e400"] {
            let error = super::seconds(text).expect_err(text);
            assert!(error.contains("e.g. 5 or 0.5"), "{error}");
        }
        assert!(super::election_id("0").is_err());
        assert_eq!(super::election_id("7"), Ok(7));
    }

    #[test]
    fn an_offline_commands_help_names_no_switch() {
        let mut command = Args::offline_without_switch();
        command.build();
        let mut help = |name: &str| {
            let found = command.find_subcommand_mut(name);
            found.map(|found| found.render_long_help().to_string())
        };
        for name in ["compile", "check", "explain", "fmt", "stf", "doctor"] {
            let help = help(name).unwrap_or_default();
            assert!(help.contains("--json"), "{name}: {help}");
            assert!(!help.contains("--switch"), "{name}: {help}");
            assert!(!help.contains("--device-id"), "{name}: {help}");
            assert!(!help.contains("--wait"), "{name}: {help}");
            assert!(!help.contains("--takeover"), "{name}: {help}");
        }
        assert!(help("show").unwrap_or_default().contains("--device-id"));
        assert!(help("apply").unwrap_or_default().contains("--takeover"));
        let aom = command.find_subcommand_mut("aom").expect("it is there");
        let mut help = |name: &str| {
            let found = aom.find_subcommand_mut(name);
            found.map(|found| found.render_long_help().to_string())
        };
        assert!(help("serve").unwrap_or_default().contains("--takeover"));
        for name in super::ASK_THE_SERVICE {
            let help = help(name).unwrap_or_default();
            assert!(help.contains("--json"), "{name}: {help}");
            assert!(!help.contains("--takeover"), "{name}: {help}");
        }
    }
}
