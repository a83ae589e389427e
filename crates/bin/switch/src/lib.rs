//! `reprise-switch`: a program, ports and a P4Runtime server around the data plane.
//!
//! The main thread owns the switch and its ports ([`event_loop`]). With several workers, each worker has a thread with
//! a switch and ports of its own ([`workers`]). Other threads serve P4Runtime and wait for signals ([`services`]), and
//! reach the switches through [`handle`]. [`bmv2`] has the command line and the log of BMv2's programs.

#![forbid(unsafe_code)]
#![warn(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the macros panic if the output is closed; `say` does not"
)]

mod bmv2;
mod clock;
mod descriptors;
mod drops;
mod engine;
mod error;
mod event_loop;
mod explain;
mod generators;
mod handle;
mod interfaces;
mod log;
mod metrics;
mod multicast_counters;
mod options;
mod owners_file;
mod parts;
mod ports;
mod privileges;
mod program;
mod service_manager;
mod services;
mod start_timeout;
mod state;
mod takeover;
mod totals;
mod trace;
mod workers;

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::{CommandFactory as _, Parser};
use dataplane::{PortId, Switch};
use dataplane_jit::NativeOptions;
use packet_io::{HandedPort, LinkMonitor, Port, PortError};

use crate::clock::Clock;
use crate::engine::EngineOption;
use crate::error::SwitchError;
use crate::event_loop::{AfterReplay, EventLoop, LoopError};
use crate::handle::LoopHandle;
use crate::interfaces::{Interfaces, Watched};
use crate::options::Options;
pub use crate::parts::{MadePayloadExtern, Offloaded, Parts};
use crate::ports::{OpenPort, OpenPorts};
use crate::program::InForce;
use crate::services::{Listeners, PassedListener, Services};
use crate::start_timeout::StartTimeout;
use crate::state::{KeptFile, StateAtStart};
use crate::takeover::{Serving, TakeoverSocket, TakingOver};
use crate::totals::{Detail, Totals};
use crate::trace::TraceEnd;
use crate::workers::Workers;

/// The command line as a clap command, from which manual pages and completions are generated.
pub fn command() -> clap::Command {
    Options::command()
}

/// Runs the command, with the arguments of the process and these parts. If the process was started under the name of
/// one of BMv2's programs, the command takes that program's arguments.
pub fn main(parts: &Parts) -> ExitCode {
    let options = match read_command_line() {
        Ok(options) => options,
        Err(code) => return code,
    };
    match run(&options, parts) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let (begin, code) = match &options.bmv2 {
                // BMv2's programs have no other exit code for a failure, and scripts may rely on that.
                Some(bmv2) => (format!("{}: ", bmv2.name.as_str()), 1),
                None => (String::new(), error.exit_code()),
            };
            say(&format!("{begin}error: {error}"));
            if let Some(details) = error.details() {
                say_lines(&details);
            }
            ExitCode::from(code)
        }
    }
}

fn read_command_line() -> Result<Options, ExitCode> {
    let mut words = std::env::args_os();
    let Some(name) = words.next().as_deref().and_then(bmv2::Name::of) else {
        return Options::try_parse().map_err(|error| of_command_line(&error));
    };
    bmv2::read(name, words.map(|word| word.to_string_lossy().into_owned()))
}

/// Prints a text, such as the help, that was requested instead of a running switch.
fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Err(source) if source.kind() != io::ErrorKind::BrokenPipe => {
            say(&format!("error: cannot print: {source}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

fn of_command_line(error: &clap::Error) -> ExitCode {
    match command_line::print(error).and_then(|()| io::stdout().flush()) {
        Err(source) if !error.use_stderr() && source.kind() != io::ErrorKind::BrokenPipe => {
            say(&format!("error: cannot print: {source}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}

/// The result of running a switch on ports that the caller gave.
#[derive(Debug, Clone)]
pub struct Forwarded {
    /// The totals as `--json` prints them.
    pub totals: String,
    /// How long the event loops ran.
    pub elapsed: Duration,
}

/// Runs the switch of a command line, with these parts, on ports that the caller gives, until `during` returns.
/// `during` runs in a thread of its own. Each worker of `--workers` gets a list of ports; all lists have the same port
/// numbers in the same order. For measurements and tests.
///
/// # Errors
/// The command's error message.
pub fn forward(
    arguments: &[&str],
    parts: &Parts,
    ports: Vec<Vec<(u16, Box<dyn Port>)>>,
    during: impl FnOnce() + Send + 'static,
) -> Result<Forwarded, String> {
    let words = ["reprise-switch"].iter().chain(arguments);
    let options = Options::try_parse_from(words).map_err(|error| error.to_string())?;
    let n_workers = usize::from(options.workers);
    if ports.len() != n_workers {
        let found = ports.len();
        return Err(format!(
            "expected ports for {n_workers} workers, found those of {found}"
        ));
    }
    let open = ports.into_iter().map(|ports| {
        let ports = ports.into_iter();
        let open = ports.map(|(id, port)| ports::given(PortId(id), port));
        open.collect()
    });
    let open = OpenPorts {
        workers: open.collect(),
        watched: Vec::new(),
    };
    // The process belongs to the caller, so it keeps its privileges.
    let keeps_privileges = |_: &Options| Ok(());
    let opened = |_: &Options, _: Option<Vec<Vec<HandedPort>>>, _: &mut StartTimeout| Ok(open);
    let stopped = prepare(&options, parts, opened, keeps_privileges).and_then(|mut prepared| {
        prepared.services.serve(&options)?;
        let handle = prepared.handle.clone();
        let stopper = thread::spawn(move || {
            during();
            handle.stop();
        });
        let began = Instant::now();
        let result = prepared.workers.run(AfterReplay::Serve);
        let elapsed = began.elapsed();
        // The loop has ended, even if the thread that stops it has panicked.
        let _ = stopper.join();
        let (totals, result) = prepared.finish(result);
        result?;
        Ok((totals, elapsed))
    });
    let (totals, elapsed) = stopped.map_err(|error| error.to_string())?;
    Ok(Forwarded {
        totals: totals.to_json(),
        elapsed,
    })
}

fn run(options: &Options, parts: &Parts) -> Result<(), SwitchError> {
    descriptors::expect_enough(options)?;
    ::privileges::gain_none().map_err(|source| SwitchError::System {
        operation: "renounce new privileges",
        source,
    })?;
    let log = log::start(options.log.log_level, options.log.log_format)?;
    // The monitor is made before the ports are opened, so that it sees every later event of their interfaces.
    let is_watched = options
        .ports
        .iter()
        .any(|port| port.source.interface().is_some());
    let monitor = is_watched.then(LinkMonitor::new).transpose();
    let monitor = monitor.map_err(|source| SwitchError::System {
        operation: "watch the interfaces",
        source,
    })?;
    let bmv2 = options.bmv2.as_ref();
    let packet_log = bmv2.map(|bmv2| bmv2::Log::open(bmv2, options.cpu_port()));
    let packet_log = packet_log.transpose()?.flatten();
    let open =
        |options: &Options, passed: Option<Vec<Vec<HandedPort>>>, timeout: &mut StartTimeout| {
            ports::open(options, packet_log.as_ref(), passed, timeout)
        };
    let mut prepared = prepare(options, parts, open, privileges::give_up)?;
    if let (Some(log), Some(true)) = (&packet_log, bmv2.map(bmv2::Bmv2::traces)) {
        let first = prepared.workers.first_mut();
        first.switch_mut().set_trace(Some(log.sink()));
    }
    let mut result = Ok(());
    if let Some(in_force) = prepared.in_force.take() {
        if let Some(monitor) = monitor {
            prepared.watch(monitor, options.exit_on_port_loss)?;
        }
        if options.explain_engine {
            explain::engine(prepared.workers.first_mut().switch_mut());
        }
        if options.listing {
            explain::listing(prepared.workers.first_mut().switch_mut());
        }
        prepared.workers.first_mut().begin_offload();
        prepared.take_over()?;
        prepared.services.serve(options)?;
        prepared.serve_takeovers(options)?;
        let ready = ready_line(options, &prepared.described, &prepared.services, &in_force);
        let flush = log.flusher();
        let notify = move || {
            flush();
            say(&ready);
            service_manager::ready();
        };
        prepared.workers.first_mut().when_ready(Box::new(notify));
        if bmv2.is_some() {
            bmv2::log_ready(packet_log.as_ref(), &prepared.services);
        }
        result = prepared.workers.run(options.after_replay());
    }
    // The error of a broken port is printed after the totals.
    let (totals, result) = prepared.finish(result);
    if let Some(log) = packet_log {
        log.close();
    }
    // BMv2 prints no totals: scripts expect packets at the end of the log.
    if bmv2.is_none() {
        print_totals(options, &totals)?;
    }
    result
}

/// A switch with its program and its entries, before the first packet.
struct Prepared {
    workers: Workers,
    services: Services,
    handle: LoopHandle,
    /// The ports as the ready line shows them.
    described: Vec<String>,
    /// The ports on interfaces, until `watch` takes them.
    watched: Vec<Watched>,
    interfaces: Option<Interfaces>,
    trace: Option<TraceEnd>,
    takeovers: Takeovers,
    /// The program; `None` if the switch was stopped before it had one.
    in_force: Option<InForce>,
}

/// The takeover that is in progress, and what later takeovers need.
struct Takeovers {
    in_progress: Option<TakingOver>,
    socket: Option<TakeoverSocket>,
    state: Option<Arc<KeptFile>>,
    listeners: Vec<PassedListener>,
    serving: Option<Serving>,
}

/// Checks everything that can be wrong before the first packet: command line, program, entries, generators' frames,
/// ports, addresses, in this order.
#[expect(
    clippy::too_many_lines,
    reason = "one step after the other, each a few lines"
)]
fn prepare(
    options: &Options,
    parts: &Parts,
    open: impl FnOnce(
        &Options,
        Option<Vec<Vec<HandedPort>>>,
        &mut StartTimeout,
    ) -> Result<OpenPorts, PortError>,
    give_up_privileges: impl FnOnce(&Options) -> Result<(), SwitchError>,
) -> Result<Prepared, SwitchError> {
    options.check()?;
    let program = options
        .program
        .as_deref()
        .map(|path| program::load(path, options, parts))
        .transpose()?;
    let entries = options
        .entries
        .as_deref()
        .map(program::read_entries)
        .transpose()?;
    options.check_entries(program.as_ref())?;
    let generators = generators::read(options)?;
    let mut timeout = StartTimeout::new();
    let (in_progress, offered) = TakingOver::begin(options)?.unzip();
    let (contents, passed, mut listeners) = match offered {
        Some(offered) => (
            Some(offered.contents),
            Some(offered.ports),
            offered.listeners,
        ),
        None => (None, None, Vec::new()),
    };
    let state = options.state.as_deref().map(|path| match contents {
        Some(contents) => Ok(StateAtStart::of_other_process(path, contents)),
        None => StateAtStart::open(path, &mut timeout),
    });
    let state = state.transpose()?;
    let kept = state.as_ref().map(StateAtStart::kept);
    if let Some(folder) = &options.keep_forwarding {
        let made = packet_io::make_kept_folder(folder);
        made.map_err(|source| SwitchError::System {
            operation: "keep forwarding beyond the switch",
            source,
        })?;
    }
    let OpenPorts {
        workers: ports,
        watched,
    } = open(options, passed, &mut timeout)?;
    let described = ports.first().into_iter().flatten();
    let described = described.map(|port| port.described.clone()).collect();
    let (handle, mut loops) = event_loops(options, parts, ports)?;
    generators::insert(loops[0].switch_mut(), generators)?;
    let trace = trace::sink(options)?.map(|(sink, end)| {
        loops[0].switch_mut().set_trace(Some(sink));
        end
    });
    let socket = TakeoverSocket::of(options, &mut listeners, &mut timeout)?;
    let listeners = Listeners::bind(options, &mut listeners, &mut timeout)?;
    let duplicates = match socket {
        Some(_) => listeners.duplicates(),
        None => Ok(Vec::new()),
    };
    let duplicates = duplicates.map_err(|source| SwitchError::System {
        operation: "duplicate the listening sockets",
        source,
    })?;
    give_up_privileges(options)?;
    let services = Services::start(handle.clone(), options, listeners)?;
    let mut workers = Workers::start(loops.remove(0), loops, handle.clone())?;
    let in_force = services.configure(&mut workers, program, entries, state)?;
    Ok(Prepared {
        workers,
        services,
        handle,
        described,
        watched,
        interfaces: None,
        trace,
        takeovers: Takeovers {
            in_progress,
            socket,
            state: kept,
            listeners: duplicates,
            serving: None,
        },
        in_force,
    })
}

impl Prepared {
    fn watch(&mut self, monitor: LinkMonitor, exits_on_loss: bool) -> Result<(), SwitchError> {
        let watched = std::mem::take(&mut self.watched);
        let handle = self.handle.clone();
        self.interfaces = Some(Interfaces::watch(monitor, watched, handle, exits_on_loss)?);
        Ok(())
    }

    /// Takes over the running switch, with `--takeover`. Frames have waited since that switch stopped, so nothing slow may
    /// come between this call and the event loops.
    fn take_over(&mut self) -> Result<(), SwitchError> {
        let Some(in_progress) = self.takeovers.in_progress.take() else {
            return Ok(());
        };
        in_progress.take(&mut self.workers, &self.handle)?;
        if let Some(state) = self.takeovers.state.clone() {
            let opening = thread::Builder::new().name("state file".to_owned());
            let opening = opening.spawn(move || state.open_left());
            opening.map_err(|source| SwitchError::System {
                operation: "start the thread that opens the state file",
                source,
            })?;
        }
        Ok(())
    }

    /// Lets later switches take over this one, with `--takeover-socket`.
    fn serve_takeovers(&mut self, options: &Options) -> Result<(), SwitchError> {
        let Takeovers {
            socket,
            state,
            listeners,
            serving,
            ..
        } = &mut self.takeovers;
        let Some((socket, state)) = socket.take().zip(state.clone()) else {
            return Ok(());
        };
        let switch = takeover::Switch {
            handle: self.handle.clone(),
            device: Arc::clone(self.services.device()),
            runtime: self.services.runtime().clone(),
            state,
            listeners: std::mem::take(listeners),
        };
        *serving = Some(Serving::start(socket, switch, options)?);
        Ok(())
    }

    /// Ends the workers and the services. Returns the totals of all workers and the first error; `first` is the first
    /// worker's result.
    fn finish(mut self, first: Result<(), LoopError>) -> (Totals, Result<(), SwitchError>) {
        let (mut loops, others) = self.workers.join();
        let (totals, closed) = workers::finish(&mut loops);
        // The trace is dropped with the loops. Only then is its result known.
        drop(loops);
        let traced = self.trace.map_or(Ok(()), TraceEnd::result);
        let lost = self.interfaces.and_then(Interfaces::stop);
        if let Some(serving) = self.takeovers.serving {
            if serving.is_handed_over() {
                self.services.leave_socket_files();
            }
            serving.stop();
        }
        self.services.stop();
        let result = first.and(others).and(closed).map_err(SwitchError::from);
        let lost = lost.map_or(Ok(()), |port| Err(SwitchError::PortLost { port }));
        (totals, result.and(lost).and(traced))
    }
}

/// Makes an event loop for each worker, with its switch and its ports; there is at least one worker.
fn event_loops(
    options: &Options,
    parts: &Parts,
    ports: Vec<Vec<OpenPort>>,
) -> Result<(LoopHandle, Vec<EventLoop>), SwitchError> {
    let clock = if options.is_replay() {
        Clock::Virtual { now: 0 }
    } else {
        Clock::monotonic()
    };
    let (handle, mailboxes) =
        handle::mailboxes(ports.len()).map_err(|source| SwitchError::System {
            operation: "make the event loop",
            source,
        })?;
    let mut loops = Vec::new();
    for ((mailbox, ports), worker) in mailboxes.into_iter().zip(ports).zip(0..) {
        let engine = options
            .engine
            .factory(options.optimise.unwrap_or(NativeOptions::ALL));
        let mut switch = Switch::with_engine(options.switch_config(worker), engine);
        parts.register_payload_externs(&mut switch)?;
        let mut event_loop = EventLoop::new(switch, clock, mailbox);
        event_loop.set_wait(options.wait);
        // BMv2 sends every frame, however late.
        let age_max = options.queues.age_max_ns();
        event_loop.set_age_max(age_max.filter(|_| options.bmv2.is_none()));
        for port in ports {
            event_loop.add_port(port);
        }
        event_loop.set_explains_offload(options.explain_engine);
        if let Some(offload) = &parts.offload {
            event_loop.set_offload(offload(worker));
        } else if options.engine == EngineOption::Kernel {
            event_loop.serve_in_kernel();
            if options.keep_forwarding.is_some() {
                event_loop.keep_forwarding();
            }
        }
        loops.push(event_loop);
    }
    let signatures = loops[0].switch_mut().payload_signatures();
    Ok((handle.with_payload_signatures(signatures), loops))
}

/// Prints a line on standard error. If that fails, there is nobody to report it to. Line ends are escaped, so that a
/// name of a program or a file, which others may have chosen, cannot begin a second line.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", printable::line(line));
}

/// Prints several lines. The caller must have escaped line ends in names that others have chosen.
fn say_lines(lines: &str) {
    let _ = writeln!(io::stderr(), "{}", printable::lines(lines));
}

/// Returns the line that says that the switch is up. Scripts wait for its beginning, "ready: ".
fn ready_line(
    options: &Options,
    ports: &[String],
    services: &Services,
    program: &InForce,
) -> String {
    let ports = if ports.is_empty() {
        "none".to_owned()
    } else {
        ports.join(" ")
    };
    let address = match services.grpc_address() {
        Some(address) if options.grpc_access.tls_cert.is_some() => {
            format!("on {address} over TLS")
        }
        Some(address) => format!("on {address}"),
        None => "off".to_owned(),
    };
    let metrics = match services.metrics_address() {
        Some(address) => format!(", metrics on {address}"),
        None => String::new(),
    };
    let thrift = match services.thrift_address() {
        Some(address) => format!(", Thrift on {address}"),
        None => String::new(),
    };
    let workers = match options.workers {
        1 => String::new(),
        n => format!(", {n} workers"),
    };
    format!(
        "ready: ports {ports}{workers}, P4Runtime {address}, program {program}{metrics}{thrift}"
    )
}

fn print_totals(options: &Options, totals: &Totals) -> Result<(), SwitchError> {
    let text = match (options.json, options.stats) {
        (true, _) => totals.to_json() + "\n",
        (false, true) => totals.to_text(Detail::Full),
        (false, false) => totals.to_text(Detail::Short),
    };
    match io::stdout().write_all(printable::lines(&text).as_bytes()) {
        // The reader has gone; the switch has done its work.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|source| SwitchError::System {
            operation: "print the totals",
            source,
        }),
    }
}
