//! The threads beside the event loop: they serve P4Runtime and gNMI, Thrift and metrics, and handle signals.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use control::Device;
use dataplane::Program;
use gnmi_server::Gnmi;
use p4runtime_proto::p4::v1::WriteRequest;
use p4runtime_server::{Server, ServerConfig, ServerLimits, SetPipelineError, WriteError};
use stream_socket::{Address, BindError, Listener, SocketFile};
use thrift_server::NotificationSocket;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::drops;
use crate::error::SwitchError;
use crate::handle::LoopHandle;
use crate::metrics::{self, Recent, Served};
use crate::options::Options;
use crate::program::{Entries, InForce, LoadedProgram};
use crate::say;
use crate::start_timeout::StartTimeout;
use crate::state::StateAtStart;
use crate::workers::Workers;

/// Time for calls in progress to be answered when the switch stops.
const STOP_TIMEOUT: Duration = Duration::from_millis(500);

/// Threads for gRPC. They only encode and decode; the event loop does the work on the switch.
const N_THREADS: usize = 2;

/// Default permissions of a Unix socket: only its owner may connect.
const SOCKET_MODE: u32 = 0o600;

/// How many failed entries are listed one by one; further failed entries are only counted.
const ENTRY_ERRORS_SHOWN: usize = 10;

/// A bound listener that is not served yet.
enum Bound {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// A listening socket that this process passes to another process, or that another process has passed to it.
pub(crate) struct PassedListener {
    /// The name of the service for which the socket listens.
    pub(crate) service: String,
    pub(crate) address: Address,
    pub(crate) descriptor: OwnedFd,
}

impl PassedListener {
    /// Whether this socket is for this service and listens at this address, which the command line gives. Port 0 on the
    /// command line stands for any port.
    fn is_for(&self, service: Service, address: &Address) -> bool {
        let is_at = match (address, &self.address) {
            (Address::Ip(wanted), Address::Ip(found)) if wanted.port() == 0 => {
                wanted.ip() == found.ip()
            }
            (wanted, found) => wanted == found,
        };
        is_at && self.service == service.name()
    }
}

/// The control threads, which run beside the event loop until [`Services::stop`].
pub(crate) struct Services {
    runtime: Runtime,
    handle: LoopHandle,
    server: Server,
    listener: Option<Bound>,
    grpc_address: Option<Address>,
    metrics_listener: Option<Bound>,
    metrics_address: Option<Address>,
    thrift_listener: Option<Bound>,
    thrift_address: Option<Address>,
    /// The socket for notifications, until the Thrift server takes it.
    notifications: Option<NotificationSocket>,
    /// The files of Unix sockets, which are removed when the services end.
    socket_files: Vec<SocketFile>,
    serving: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

/// All listeners, bound while the thread still has the privileges for that.
pub(crate) struct Listeners {
    tls: Option<tls::Server>,
    p4runtime: Option<(Bound, Address)>,
    metrics: Option<(Bound, Address)>,
    thrift: Option<(Bound, Address)>,
    notifications: Option<NotificationSocket>,
}

impl Listeners {
    pub(crate) fn bind(
        options: &Options,
        passed: &mut Vec<PassedListener>,
        timeout: &mut StartTimeout,
    ) -> Result<Listeners, SwitchError> {
        let tls = options.grpc_access.tls_files().map(tls::Server::open);
        let tls = tls.transpose()?;
        let mut listen = |service: Service, address: Option<Address>| {
            let listen = |address| {
                let place = passed.iter().position(|it| it.is_for(service, &address));
                if let Some(place) = place {
                    let passed = passed.swap_remove(place);
                    let bound = go_on(passed);
                    return bound.map_err(|source| service.refused(&address, source, options));
                }
                timeout.retry_while(SwitchError::is_held, || service.listen(&address, options))
            };
            address.map(listen).transpose()
        };
        Ok(Listeners {
            tls,
            p4runtime: listen(Service::P4Runtime, options.grpc_address())?,
            metrics: listen(Service::Metrics, options.metrics.map(Address::Ip))?,
            thrift: listen(Service::Thrift, options.thrift_address())?,
            notifications: notification_socket(options, timeout)?,
        })
    }

    /// Returns duplicates of the listening sockets, for a process that takes over from this one.
    pub(crate) fn duplicates(&self) -> io::Result<Vec<PassedListener>> {
        let services = [
            (Service::P4Runtime, &self.p4runtime),
            (Service::Metrics, &self.metrics),
            (Service::Thrift, &self.thrift),
        ];
        let bound = services.into_iter().filter_map(|(service, bound)| {
            let (bound, address) = bound.as_ref()?;
            Some((service, bound, address))
        });
        let duplicates = bound.map(|(service, bound, address)| {
            Ok(PassedListener {
                service: service.name().to_owned(),
                address: address.clone(),
                descriptor: match bound {
                    Bound::Tcp(listener) => listener.try_clone()?.into(),
                    Bound::Unix(listener, _) => listener.try_clone()?.into(),
                },
            })
        });
        duplicates.collect()
    }
}

impl Services {
    pub(crate) fn start(
        handle: LoopHandle,
        options: &Options,
        listeners: Listeners,
    ) -> Result<Services, SwitchError> {
        let system = |operation| move |source| SwitchError::System { operation, source };
        let Listeners {
            tls,
            p4runtime,
            metrics,
            thrift,
            notifications,
        } = listeners;
        let (listener, grpc_address) = p4runtime.unzip();
        let (metrics_listener, metrics_address) = metrics.unzip();
        let (thrift_listener, thrift_address) = thrift.unzip();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(N_THREADS)
            .thread_name("control")
            .enable_all()
            .build()
            .map_err(system("start the control threads"))?;
        {
            let _context = runtime.enter();
            let mut stops = vec![
                SignalKind::interrupt(),
                SignalKind::terminate(),
                SignalKind::quit(),
            ];
            // nohup starts a process with SIGHUP ignored, so that the process outlives its terminal.
            if !is_hangup_ignored() {
                stops.push(SignalKind::hangup());
            }
            for stop in stops {
                let stop = signal(stop).map_err(system("listen for signals"))?;
                runtime.spawn(stop_at_signal(stop, handle.clone()));
            }
            for (kind, name) in [
                (SignalKind::user_defined1(), "SIGUSR1"),
                (SignalKind::user_defined2(), "SIGUSR2"),
            ] {
                let ignored = signal(kind).map_err(system("listen for signals"))?;
                runtime.spawn(note_signal(ignored, name));
            }
        }
        let config = ServerConfig {
            device_id: options.device_id,
            cpu_port: options.cpu_port(),
        };
        let device = Device::new(Arc::new(handle.clone()), options.registers.into());
        let limits = ServerLimits {
            rate: options.grpc_access.grpc_rate,
            ..ServerLimits::default()
        };
        let server = Server::with_limits(config, limits, Arc::new(device)).with_tls(tls);
        Ok(Services {
            runtime,
            handle,
            server,
            listener,
            grpc_address,
            metrics_listener,
            metrics_address,
            thrift_listener,
            thrift_address,
            notifications,
            socket_files: Vec::new(),
            serving: None,
        })
    }

    pub(crate) fn grpc_address(&self) -> Option<&Address> {
        self.grpc_address.as_ref()
    }

    pub(crate) fn metrics_address(&self) -> Option<&Address> {
        self.metrics_address.as_ref()
    }

    pub(crate) fn thrift_address(&self) -> Option<&Address> {
        self.thrift_address.as_ref()
    }

    /// Gives the switch the program and the entries of the command line, the way a controller would, unless its state
    /// file has a pipeline. Returns the program that forwards then; `None` if the switch was stopped meanwhile.
    pub(crate) fn configure(
        &self,
        workers: &mut Workers,
        program: Option<LoadedProgram>,
        entries: Option<Entries>,
        state: Option<StateAtStart>,
    ) -> Result<Option<InForce>, SwitchError> {
        if program.is_none() && state.is_none() {
            return Ok(Some(InForce::Nothing));
        }
        let (done, result) = mpsc::channel();
        let (server, handle) = (self.server.clone(), self.handle.clone());
        self.runtime.spawn(async move {
            let result = set_up_or_restore(&server, program, entries, state).await;
            // The receiver is gone if the switch has been stopped.
            let _ = done.send(result);
            handle.wake();
        });
        let mut outcome = None;
        let is_up = workers.first_mut().serve_work_until(|| {
            outcome = result.try_recv().ok();
            outcome.is_some()
        })?;
        let in_force = outcome.unwrap_or(Ok(InForce::Nothing))?;
        Ok(is_up.then_some(in_force))
    }

    /// Serves P4Runtime, Thrift and metrics, and logs drops, from now on.
    pub(crate) fn serve(&mut self, options: &Options) -> Result<(), SwitchError> {
        let log_drops = options.log.log_drops;
        if log_drops > 0 {
            let interval = Duration::from_secs(log_drops.into());
            self.runtime
                .spawn(drops::log(self.server.clone(), interval));
        }
        self.serve_metrics(options)?;
        self.serve_thrift(options)?;
        let bound = self.listener.take().zip(self.grpc_address.clone());
        let Some((bound, address)) = bound else {
            return Ok(());
        };
        let listener = self.listener_of(Service::P4Runtime, bound, &address, options)?;
        let said = match &options.grpc_access {
            access if access.tls_client_ca.is_some() => None,
            access if access.tls_cert.is_some() => without_client_certificates(&address),
            _ if options.bmv2.is_some() => beyond_loopback(
                "P4Runtime",
                &address,
                "--grpc-server-ssl with certificates, or --grpc-server-addr 127.0.0.1:9559",
            ),
            _ => beyond_loopback(
                "P4Runtime",
                &address,
                "--tls-cert, --tls-key and --tls-client-ca, or --grpc 127.0.0.1:9559",
            ),
        };
        if let Some(said) = said {
            tracing::warn!(event = "grpc_beyond_loopback", %address, "{said}");
        }
        let (shutdown, is_shut_down) = oneshot::channel();
        let (server, handle) = (self.server.clone(), self.handle.clone());
        let gnmi = Gnmi::new(Arc::clone(server.device()));
        let service = gnmi.service();
        let shut_down = async move {
            // A sender that is gone means shutdown too.
            let _ = is_shut_down.await;
            gnmi.end();
        };
        // Called before the switch is ready, so that every packet-in is counted.
        let serving = server.serve_beside(service, listener, shut_down);
        let served = self.runtime.spawn(async move {
            if let Err(error) = serving.await {
                say(&format!(
                    "error: cannot serve P4Runtime on {address} any more: {error}"
                ));
                handle.stop();
            }
        });
        self.serving = Some((shutdown, served));
        Ok(())
    }

    fn serve_metrics(&mut self, options: &Options) -> Result<(), SwitchError> {
        let bound = self.metrics_listener.take();
        let Some((bound, address)) = bound.zip(self.metrics_address.clone()) else {
            return Ok(());
        };
        let listener = self.listener_of(Service::Metrics, bound, &address, options)?;
        if address.is_beyond_this_machine() {
            tracing::warn!(
                event = "metrics_beyond_loopback",
                %address,
                "metrics are served on {address} without password or encryption: whoever reaches it reads every counter, and how busy the switch is; --metrics 127.0.0.1:PORT and a tunnel (ssh -L) keep others out"
            );
        }
        let recent = Recent::new();
        let kept = recent.clone().keep(Arc::clone(self.server.device()));
        self.runtime.spawn(kept);
        let selection = options.metrics_selection();
        let engine = options.engine.name();
        let (handle, server) = (self.handle.clone(), self.server.clone());
        let served = Served::new(handle, server, selection, recent, engine);
        let router = metrics::router(served);
        // This task ends with the runtime. If that cuts a request off, Prometheus repeats the request.
        self.runtime.spawn(async move {
            let connections = metrics::BoundedListener::new(listener);
            if let Err(error) = axum::serve(connections, router).await {
                say(&format!(
                    "error: cannot serve metrics on {address} any more: {error}"
                ));
            }
        });
        Ok(())
    }

    fn serve_thrift(&mut self, options: &Options) -> Result<(), SwitchError> {
        let bound = self.thrift_listener.take();
        let Some((bound, address)) = bound.zip(self.thrift_address.clone()) else {
            return Ok(());
        };
        let listener = self.listener_of(Service::Thrift, bound, &address, options)?;
        if let Some(said) = beyond_loopback("Thrift", &address, "--thrift-addr 127.0.0.1") {
            tracing::warn!(event = "thrift_beyond_loopback", %address, "{said}");
        }
        let notifications = self.notifications.take();
        let published_at = notifications.as_ref().map(|it| it.address().to_owned());
        let config = thrift_server::ServerConfig {
            device_id: options.device_id,
            port: match address {
                Address::Ip(address) => address.port(),
                Address::Unix(_) => 0,
            },
            notifications: published_at,
        };
        let server = thrift_server::Server::new(config, Arc::clone(self.server.device()));
        if let Some(socket) = notifications {
            let beyond = socket.tcp().filter(|it| !it.ip().is_loopback());
            if let Some(address) = beyond {
                tracing::warn!(
                    event = "notifications_beyond_loopback",
                    %address,
                    "notifications are published on {address} without password or encryption: whoever reaches it reads digests, aged entries and changes of ports; --notifications-addr with ipc:// or tcp://127.0.0.1:PORT keeps others out"
                );
            }
            self.runtime.spawn(server.publish(socket));
        }
        // This task ends with the runtime. If that cuts a request off, the client repeats the request.
        self.runtime
            .spawn(server.serve(listener, std::future::pending()));
        Ok(())
    }

    /// Makes a listener for the runtime. Keeps the path of a Unix socket's file, so that the file is removed at the
    /// end.
    fn listener_of(
        &mut self,
        service: Service,
        bound: Bound,
        address: &Address,
        options: &Options,
    ) -> Result<Listener, SwitchError> {
        let _context = self.runtime.enter();
        let listener = match bound {
            Bound::Tcp(listener) => tokio::net::TcpListener::from_std(listener).map(Listener::Tcp),
            Bound::Unix(listener, file) => {
                self.socket_files.push(file.own());
                tokio::net::UnixListener::from_std(listener).map(Listener::Unix)
            }
        };
        listener.map_err(|source| service.refused(address, source, options))
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        self.server.device()
    }

    pub(crate) fn runtime(&self) -> &tokio::runtime::Handle {
        self.runtime.handle()
    }

    /// Leaves the files of Unix sockets to the process that has taken the sockets over.
    pub(crate) fn leave_socket_files(&mut self) {
        for file in self.socket_files.drain(..) {
            file.leave();
        }
    }

    /// Ends the threads. The event loop must have ended, so that no call waits for it.
    pub(crate) fn stop(self) {
        if let Some((shutdown, served)) = self.serving {
            // The receiver is gone if serving has failed.
            let _ = shutdown.send(());
            // Calls that have not finished by then are cut off.
            let _ = self
                .runtime
                .block_on(async { tokio::time::timeout(STOP_TIMEOUT, served).await });
        }
        self.runtime.shutdown_timeout(STOP_TIMEOUT);
    }
}

/// Restores the state file; if it has no pipeline, sets the program and entries of the command line.
async fn set_up_or_restore(
    server: &Server,
    program: Option<LoadedProgram>,
    entries: Option<Entries>,
    state: Option<StateAtStart>,
) -> Result<InForce, SwitchError> {
    let restored_from = match state {
        Some(state) => state.restore(server).await?,
        None => None,
    };
    let Some(file) = restored_from else {
        let Some(program) = program else {
            return Ok(InForce::Nothing);
        };
        let path = program.path.clone();
        set_up(server, program, entries).await?;
        return Ok(InForce::CommandLine(path));
    };
    let Some(committed) = server.device().committed() else {
        // The switch was stopped meanwhile.
        return Ok(InForce::Nothing);
    };
    let json = Arc::clone(committed.config());
    let in_force = InForce::restored(&json, file);
    if let Some(program) = program.filter(|it| it.json.as_bytes() != &json[..]) {
        let program = program.path.display();
        tracing::warn!(
            event = "program_ignored",
            %program,
            in_force = %in_force,
            "{program} of the command line is not loaded, since the program {in_force} forwards: to use {program} move the state file away, or set it now (\"reprise pipeline set {program}\")"
        );
    }
    Ok(in_force)
}

async fn set_up(
    server: &Server,
    program: LoadedProgram,
    entries: Option<Entries>,
) -> Result<(), SwitchError> {
    let LoadedProgram { path, json, p4info } = program;
    let Some(p4info) = p4info else {
        return set_alone(server.device(), path, &json).await;
    };
    match server.set_pipeline(p4info, json.into_bytes()).await {
        Ok(()) => {}
        // The event loop was stopped and reports that itself.
        Err(SetPipelineError::Stopped) => return Ok(()),
        Err(SetPipelineError::Invalid(error)) => {
            let message = error.to_string();
            return Err(SwitchError::Program { path, message });
        }
    }
    let Some(Entries { path, request }) = entries else {
        return Ok(());
    };
    server.write(&request).await.map_err(|error| {
        let (message, details) = entry_errors(&request, &error);
        SwitchError::Entries {
            path,
            message,
            details,
        }
    })
}

/// Sets a program that has no P4Info; P4Runtime controllers cannot use such a program.
async fn set_alone(device: &Arc<Device>, path: PathBuf, json: &str) -> Result<(), SwitchError> {
    let checked = Program::from_json_str_with(json, &device.payload_signatures())
        .map_err(|error| error.to_string())
        .and_then(|program| device.check(program, ()).map_err(|error| error.to_string()))
        .map(|checked| checked.with_json(json.as_bytes()));
    let checked = match checked {
        Ok(checked) => checked,
        Err(message) => return Err(SwitchError::Program { path, message }),
    };
    // The event loop was stopped and reports that itself.
    if device.set_pipeline(checked).await.is_ok() {
        tracing::info!(
            event = "pipeline_set",
            name = %path.display(),
            "the pipeline of {} is set, without P4Info",
            path.display()
        );
    }
    Ok(())
}

/// Returns a message, and a line for each failed update with its number in the file, from 1.
fn entry_errors(request: &WriteRequest, error: &WriteError) -> (String, String) {
    let WriteError::Updates(results) = error else {
        return (error.to_string(), String::new());
    };
    let failed = results.iter().enumerate().filter_map(|(place, result)| {
        let error = result.as_ref().err()?.to_string();
        Some(format!(
            "  update {}: {}",
            place + 1,
            printable::line(&error)
        ))
    });
    let mut lines: Vec<String> = failed.collect();
    let n_failed = lines.len();
    if let Some(n_more) = n_failed.checked_sub(ENTRY_ERRORS_SHOWN).filter(|n| *n > 0) {
        lines.truncate(ENTRY_ERRORS_SHOWN);
        lines.push(format!("  and {n_more} more"));
    }
    let message = format!("{n_failed} of {} updates failed:", request.updates.len());
    (message, lines.join("\n"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Service {
    P4Runtime,
    Metrics,
    Thrift,
}

impl Service {
    fn name(self) -> &'static str {
        match self {
            Service::P4Runtime => "P4Runtime",
            Service::Metrics => "metrics",
            Service::Thrift => "Thrift",
        }
    }

    /// The option that sets the service's address. Its name depends on the name under which the switch was started.
    fn option(self, options: &Options) -> &'static str {
        match (self, &options.bmv2) {
            (Service::P4Runtime, None) => "--grpc",
            (Service::P4Runtime, Some(_)) => "-- --grpc-server-addr",
            (Service::Metrics, _) => "--metrics",
            (Service::Thrift, _) => "--thrift-port",
        }
    }

    fn listen(self, address: &Address, options: &Options) -> Result<(Bound, Address), SwitchError> {
        let bound = match address {
            Address::Ip(address) => bind(*address),
            Address::Unix(path) => bind_file(path, options.socket_mode.unwrap_or(SOCKET_MODE)),
        };
        bound.map_err(|source| self.refused(address, source, options))
    }

    fn refused(self, address: &Address, source: io::Error, options: &Options) -> SwitchError {
        // BMv2's option takes numbers from 1 on.
        let takes_zero = self != Service::Thrift || options.bmv2.is_none();
        let hint = match source.kind() {
            io::ErrorKind::AddrInUse if matches!(address, Address::Unix(_)) => {
                "; another switch may be running: name another file".to_owned()
            }
            io::ErrorKind::AddrInUse => {
                let option = self.option(options);
                let zero = if takes_zero {
                    ", port 0 takes a free one"
                } else {
                    ""
                };
                format!(
                    "; another switch may be running: choose another address with {option}{zero}"
                )
            }
            io::ErrorKind::AddrNotAvailable => {
                "; this machine does not have it (\"ip -br address\" lists those that it has)"
                    .to_owned()
            }
            _ => String::new(),
        };
        SwitchError::Listen {
            service: self.name(),
            address: address.clone(),
            source,
            hint,
        }
    }
}

/// Binds the address for notifications. For BMv2's default, which perhaps nobody uses, a failure is only a warning.
fn notification_socket(
    options: &Options,
    timeout: &mut StartTimeout,
) -> Result<Option<NotificationSocket>, SwitchError> {
    let bmv2 = options.bmv2.as_ref();
    let Some(at) = bmv2.and_then(|bmv2| bmv2.notifications.as_ref()) else {
        return Ok(None);
    };
    let listen = || NotificationSocket::listen(&at.address);
    if at.is_asked {
        let is_held = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
        let socket = timeout.retry_while(is_held, listen);
        return socket.map(Some).map_err(|source| SwitchError::File {
            operation: "publish notifications at",
            path: at.address.as_str().into(),
            source,
        });
    }
    Ok(listen()
        .inspect_err(|error| {
            tracing::warn!(
                event = "notifications_unpublished",
                address = at.address,
                %error,
                "no notifications are published at {}: {error}",
                at.address
            );
        })
        .ok())
}

/// Makes a listener of a socket that another process has passed.
fn go_on(passed: PassedListener) -> io::Result<(Bound, Address)> {
    let PassedListener {
        address,
        descriptor,
        ..
    } = passed;
    let bound = match &address {
        Address::Ip(_) => {
            let listener = TcpListener::from(descriptor);
            listener.set_nonblocking(true)?;
            Bound::Tcp(listener)
        }
        Address::Unix(path) => {
            let listener = UnixListener::from(descriptor);
            listener.set_nonblocking(true)?;
            Bound::Unix(listener, SocketFile::passed(path)?)
        }
    };
    Ok((bound, address))
}

fn bind(address: SocketAddr) -> io::Result<(Bound, Address)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let bound = listener.local_addr()?;
    Ok((Bound::Tcp(listener), Address::Ip(bound)))
}

fn bind_file(path: &Path, mode: u32) -> io::Result<(Bound, Address)> {
    let (listener, file) = SocketFile::listen(path, mode).map_err(|error| match error {
        BindError::InUse => io::ErrorKind::AddrInUse.into(),
        BindError::Foreign(found) => io::Error::other(format!(
            "expected a socket or nothing there, found {found}: name another file, or move it away"
        )),
        BindError::System(error) => error,
    })?;
    Ok((Bound::Unix(listener, file), Address::Unix(path.to_owned())))
}

/// The warning for an address that other machines can reach.
fn beyond_loopback(service: &str, address: &Address, instead: &str) -> Option<String> {
    address.is_beyond_this_machine().then(|| format!(
        "{service} is served on {address} without password or encryption: whoever reaches it rules the switch; {instead} and a tunnel (ssh -L) keep others out"
    ))
}

/// The warning for an address that other machines can reach, where TLS encrypts but lets everybody call.
fn without_client_certificates(address: &Address) -> Option<String> {
    address.is_beyond_this_machine().then(|| format!(
        "P4Runtime is served on {address} to whoever reaches it, over TLS: --tls-client-ca lets only those in who have a certificate"
    ))
}

/// Whether this process was started with SIGHUP ignored, according to the kernel's mask in `/proc` (proc(5)).
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Without /proc the mask is unknown; SIGHUP then stops the switch like the other signals.
    mask.is_some_and(|mask| mask & 1 != 0)
}

/// Logs a signal that has no meaning here; by default it would end the switch without its totals.
async fn note_signal(mut signal: Signal, name: &'static str) {
    while signal.recv().await.is_some() {
        tracing::info!(
            event = "signal_ignored",
            signal = name,
            "{name} is ignored: the switch's counts are in the metrics, and in the totals at its end"
        );
    }
}

/// The first signal stops the switch; a second one ends the process at once, should the switch not stop.
async fn stop_at_signal(mut stop: Signal, handle: LoopHandle) {
    stop.recv().await;
    handle.stop();
    stop.recv().await;
    std::process::exit(1);
}
