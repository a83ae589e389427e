//! The running switch's side of a takeover.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use control::{Device, SwitchHandle as _};
use packet_io::HandedPort;
use stream_socket::{Address, BindError, SocketFile};
use tokio::runtime::Handle;

use super::wire::Connection;
use super::{Description, Hello, Message, Offer, OfferedListener, OfferedPort, TAKEOVER_SERVICE};
use crate::error::SwitchError;
use crate::event_loop::{Handover, Outcome, PacketState, Pause};
use crate::handle::LoopHandle;
use crate::options::Options;
use crate::service_manager;
use crate::services::PassedListener;
use crate::start_timeout::StartTimeout;
use crate::state::KeptFile;

/// Only the switch's user may connect.
const SOCKET_MODE: u32 = 0o600;

/// Timeout of the first message, and of control calls in progress.
const HELLO_MAX: Duration = Duration::from_secs(5);

/// Timeout of the new process's preparations: it restores all entries and compiles the program. Control calls that write
/// wait for as long.
const PREPARE_MAX: Duration = Duration::from_secs(60);

/// The longest time for which neither process may be forwarding. A receive ring of 4,096 slots holds what comes in that
/// time at 16,000 frames/s.
pub(super) const HANDOVER_MAX: Duration = Duration::from_millis(250);

/// Pause after a failed accept: without a free descriptor the kernel would fail again at once.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The socket of takeovers, which is not served yet.
pub(crate) struct TakeoverSocket {
    listener: UnixListener,
    file: SocketFile,
}

impl TakeoverSocket {
    /// Listens at `--takeover-socket`, or goes on with the socket that another process has passed.
    pub(crate) fn of(
        options: &Options,
        passed: &mut Vec<PassedListener>,
        timeout: &mut StartTimeout,
    ) -> Result<Option<TakeoverSocket>, SwitchError> {
        let Some(path) = options.takeover_socket.as_deref() else {
            return Ok(None);
        };
        let address = Address::Unix(path.to_owned());
        let place = passed.iter().position(|it| it.service == TAKEOVER_SERVICE);
        let made = match place.map(|place| passed.swap_remove(place)) {
            Some(passed) => SocketFile::passed(path).map(|file| (passed.descriptor.into(), file)),
            None => {
                let is_held = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
                timeout.retry_while(is_held, || listen(path))
            }
        };
        let (listener, file) = made.map_err(|source| SwitchError::Listen {
            service: "takeovers",
            address,
            hint: match source.kind() {
                io::ErrorKind::AddrInUse => {
                    "; another switch is running: --takeover replaces it".to_owned()
                }
                _ => String::new(),
            },
            source,
        })?;
        Ok(Some(TakeoverSocket { listener, file }))
    }
}

fn listen(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    SocketFile::listen(path, SOCKET_MODE).map_err(|error| match error {
        BindError::InUse => io::ErrorKind::AddrInUse.into(),
        BindError::Foreign(found) => io::Error::other(format!(
            "expected a socket or nothing there, found {found}: name another file, or move it away"
        )),
        BindError::System(error) => error,
    })
}

/// What a takeover needs of the switch.
pub(crate) struct Switch {
    pub(crate) handle: LoopHandle,
    pub(crate) device: Arc<Device>,
    pub(crate) runtime: Handle,
    pub(crate) state: Arc<KeptFile>,
    /// Duplicates of the listening sockets.
    pub(crate) listeners: Vec<PassedListener>,
}

/// Serves takeovers on a thread of its own until the process ends.
pub(crate) struct Serving {
    file: SocketFile,
    is_handed_over: Arc<AtomicBool>,
}

impl Serving {
    pub(crate) fn start(
        socket: TakeoverSocket,
        switch: Switch,
        options: &Options,
    ) -> Result<Serving, SwitchError> {
        let system = |source| SwitchError::System {
            operation: "serve takeovers",
            source,
        };
        let TakeoverSocket { listener, file } = socket;
        listener.set_nonblocking(false).map_err(system)?;
        let is_handed_over = Arc::new(AtomicBool::new(false));
        let server = Arc::new(Server {
            switch,
            socket: listener.try_clone().map_err(system)?.into(),
            path: options.takeover_socket.clone().unwrap_or_default(),
            description: Description::of(options),
            running: Mutex::new(()),
            is_handed_over: Arc::clone(&is_handed_over),
        });
        let thread = thread::Builder::new().name("takeover".to_owned());
        let started = thread.spawn(move || server.serve(&listener));
        started.map_err(system)?;
        Ok(Serving {
            file: file.own(),
            is_handed_over,
        })
    }

    pub(crate) fn is_handed_over(&self) -> bool {
        self.is_handed_over.load(Ordering::Acquire)
    }

    /// Removes the socket's file, unless the file belongs to another process now.
    pub(crate) fn stop(self) {
        if self.is_handed_over() {
            self.file.leave();
        }
    }
}

struct Server {
    switch: Switch,
    socket: OwnedFd,
    path: std::path::PathBuf,
    description: Description,
    /// Locked during a takeover.
    running: Mutex<()>,
    is_handed_over: Arc<AtomicBool>,
}

/// The loops of all workers, which wait for the outcome. Dropping this lets them go on.
struct Paused(Vec<Sender<Outcome>>);

impl Paused {
    fn end(self, outcome: Outcome) {
        for worker in self.0 {
            // A loop that has ended needs no outcome.
            let _ = worker.send(outcome);
        }
    }
}

impl Server {
    fn serve(self: Arc<Self>, listener: &UnixListener) {
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    let server = Arc::clone(&self);
                    let thread = thread::Builder::new().name("takeover".to_owned());
                    // Without a thread the connection is closed, and the new process ends.
                    let _ = thread.spawn(move || server.answer(stream));
                }
                Err(_) => thread::sleep(ACCEPT_RETRY),
            }
        }
    }

    fn answer(&self, stream: UnixStream) {
        let Ok(mut connection) = Connection::new(stream, HELLO_MAX) else {
            return;
        };
        let (result, process) = match connection.peer() {
            Ok((user, process)) => (self.hand_over(&mut connection, user, process), process),
            Err(error) => (Err(error.to_string()), 0),
        };
        if let Err(reason) = result {
            tracing::warn!(
                event = "takeover_failed",
                process,
                reason,
                "process {process} has not taken the switch over, which goes on: {reason}"
            );
            connection.begin_step(HANDOVER_MAX);
            // The other process may have ended.
            let _ = connection.send(&Message::Refused(reason), &[]);
        }
    }

    fn hand_over(
        &self,
        connection: &mut Connection,
        user: u32,
        process: u32,
    ) -> Result<(), String> {
        let own = privileges::user();
        if user != own {
            return Err(format!(
                "expected a process of user {own}, the switch's, found one of user {user}"
            ));
        }
        let _running = match self.running.try_lock() {
            Ok(running) => running,
            Err(std::sync::TryLockError::Poisoned(error)) => PoisonError::into_inner(error),
            Err(std::sync::TryLockError::WouldBlock) => {
                return Err(
                    "another takeover is in progress: try again when it has ended".to_owned(),
                );
            }
        };
        if self.is_handed_over.load(Ordering::Acquire) {
            return Err("another process has taken the switch over just now: try again".to_owned());
        }
        match connection.receive().map_err(|error| error.to_string())?.0 {
            Message::Hello(Hello { switch, .. }) => {
                if let Some(difference) = self.description.difference(&switch) {
                    return Err(difference);
                }
            }
            _ => return Err("expected a new process's first message, found another".to_owned()),
        }
        self.hand_over_to(connection, process)
    }

    fn hand_over_to(&self, connection: &mut Connection, process: u32) -> Result<(), String> {
        let device = &self.switch.device;
        // Control calls that write must wait as long as `reading` lives, which is until the takeover has ended.
        let reading = self.switch.runtime.block_on(async {
            let reading = tokio::time::timeout(HELLO_MAX, device.reading()).await;
            reading.map_err(|_| "a control call takes too long: try again later".to_owned())
        })?;
        let reading = reading.map_err(|error| format!("{error}: nothing is to be taken over"))?;
        connection.begin_step(PREPARE_MAX);
        let offered = self.offer(connection)?;
        match connection.receive().map_err(|error| error.to_string())?.0 {
            Message::Prepared => {}
            Message::Refused(reason) => return Err(reason),
            _ => return Err("expected word that the new process is prepared".to_owned()),
        }
        connection.begin_step(HANDOVER_MAX);
        let began = Instant::now();
        let (paused, states) = self.pause();
        let taken = states.and_then(|states| self.pass_on(connection, states, &offered));
        match taken {
            Ok(()) => {
                self.is_handed_over.store(true, Ordering::Release);
                let pause_us = began.elapsed().as_micros();
                tracing::info!(
                    event = "handed_over",
                    process,
                    pause_us = u64::try_from(pause_us).unwrap_or(u64::MAX),
                    "process {process} has taken the switch over; frames waited {pause_us} us for its answer"
                );
                // The process ends as soon as the loops have ended, so everything else is done before.
                service_manager::main_process_is(process);
                self.switch.state.leave();
                paused.end(Outcome::HandedOver);
                self.switch.handle.stop();
                drop(reading);
                Ok(())
            }
            Err(reason) => {
                paused.end(Outcome::GoOn);
                Err(reason)
            }
        }
    }

    /// Sends the offer; returns the ports in it.
    fn offer(&self, connection: &mut Connection) -> Result<Vec<Vec<OfferedPort>>, String> {
        let contents = self
            .switch
            .state
            .contents()
            .map_err(|error| error.to_string())?;
        let mut descriptors: Vec<OwnedFd> = Vec::new();
        let mut workers = Vec::new();
        for ports in self.ports()? {
            let ports = ports.into_iter().map(|(id, handed)| {
                let n_descriptors = handed.descriptors.len();
                descriptors.extend(handed.descriptors);
                OfferedPort {
                    id,
                    n_descriptors,
                    state: handed.state,
                }
            });
            workers.push(ports.collect::<Vec<_>>());
        }
        let mut passed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        let mut listeners = vec![OfferedListener {
            service: TAKEOVER_SERVICE.to_owned(),
            address: Address::Unix(self.path.clone()).to_string(),
        }];
        passed.push(self.socket.as_fd());
        for listener in &self.switch.listeners {
            listeners.push(OfferedListener {
                service: listener.service.clone(),
                address: listener.address.to_string(),
            });
            passed.push(listener.descriptor.as_fd());
        }
        let offer = Offer {
            process: std::process::id(),
            contents,
            workers: workers.clone(),
            listeners,
        };
        let sent = connection.send(&Message::Offer(Box::new(offer)), &passed);
        sent.map_err(|error| error.to_string())?;
        Ok(workers)
    }

    /// Asks every worker for its ports.
    fn ports(&self) -> Result<Vec<Vec<(u16, HandedPort)>>, String> {
        let (requests, answers): (Vec<_>, Vec<_>) = (0..self.switch.handle.n_workers())
            .map(|_| {
                let (sender, receiver) = mpsc::channel();
                (Handover::Offer(sender), receiver)
            })
            .unzip();
        self.switch.handle.hand_over(requests);
        let answers = answers.into_iter().map(|answer| {
            let ports = answer.recv_timeout(HELLO_MAX).map_err(|_| stopped())??;
            let ports = ports.into_iter().map(|(id, handed)| (id.0, handed));
            Ok(ports.collect())
        });
        answers.collect()
    }

    /// Stops all workers between two packets.
    fn pause(&self) -> (Paused, Result<Vec<PacketState>, String>) {
        let n_workers = self.switch.handle.n_workers();
        let (mut requests, mut answers, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..n_workers {
            let (paused, answer) = mpsc::channel();
            let (sender, outcome) = mpsc::channel();
            requests.push(Handover::Pause(Pause { paused, outcome }));
            answers.push(answer);
            outcomes.push(sender);
        }
        self.switch.handle.hand_over(requests);
        let end = Instant::now() + HANDOVER_MAX;
        let states = answers.into_iter().map(|answer| {
            let left = end.saturating_duration_since(Instant::now());
            answer.recv_timeout(left).map_err(|_| stopped())?
        });
        let states = states.collect();
        (Paused(outcomes), states)
    }

    /// Passes the workers' states on, and waits until the new process has taken over.
    fn pass_on(
        &self,
        connection: &mut Connection,
        states: Vec<PacketState>,
        offered: &[Vec<OfferedPort>],
    ) -> Result<(), String> {
        let mut workers = states.iter().zip(offered);
        let is_of_offer = workers.all(|(state, offered)| {
            let offered: Vec<_> = offered.iter().map(|it| (it.id, it.state.clone())).collect();
            state.is_of_offer(offered.iter())
        });
        if !is_of_offer {
            return Err("a port's interface was lost or came back meanwhile: try again".to_owned());
        }
        let sent = connection.send(&Message::State(states), &[]);
        sent.map_err(|error| error.to_string())?;
        if connection.is_taken() {
            Ok(())
        } else {
            Err(format!(
                "the new process has ended, or did not go on within {} ms",
                HANDOVER_MAX.as_millis()
            ))
        }
    }
}

fn stopped() -> String {
    "a worker is stopped, or too busy to answer".to_owned()
}
