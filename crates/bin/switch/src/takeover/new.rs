//! The new process's side of a takeover.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use packet_io::HandedPort;
use state_store::Contents;
use stream_socket::Address;

use super::wire::{Connection, WireError};
use super::{Description, Hello, Message, Offer};
use crate::error::SwitchError;
use crate::event_loop::{Handover, PacketState};
use crate::handle::LoopHandle;
use crate::options::{Options, VERSION};
use crate::services::PassedListener;
use crate::workers::Workers;

/// How long to wait for the offer: the old process may have to wait for control calls before it sends the offer.
const OFFER_MAX: Duration = Duration::from_secs(15);

/// How long to wait for the state after the preparations.
const STATE_MAX: Duration = Duration::from_secs(5);

/// A takeover in progress: dropping it leaves the switch to the old process.
pub(crate) struct TakingOver {
    path: PathBuf,
    connection: Connection,
    /// The id of the old process.
    process: u32,
}

/// What the old process has offered.
pub(crate) struct Offered {
    pub(crate) contents: Contents,
    /// For each worker its ports, in the order of the command line.
    pub(crate) ports: Vec<Vec<HandedPort>>,
    pub(crate) listeners: Vec<PassedListener>,
}

impl TakingOver {
    /// Connects to the running switch and takes its offer.
    pub(crate) fn begin(options: &Options) -> Result<Option<(TakingOver, Offered)>, SwitchError> {
        let Some(path) = options
            .takeover_socket
            .as_deref()
            .filter(|_| options.takeover)
        else {
            return Ok(None);
        };
        let connected = connect(path).map_err(|message| refused(path, message))?;
        let mut taking_over = TakingOver {
            path: path.to_owned(),
            connection: connected,
            process: 0,
        };
        let hello = Message::Hello(Hello {
            version: VERSION.to_owned(),
            process: std::process::id(),
            switch: Description::of(options),
        });
        let sent = taking_over.connection.send(&hello, &[]);
        match sent {
            // The old process may refuse and close the connection before this message is sent.
            Ok(()) | Err(WireError::Closed) => {}
            Err(error) => return Err(refused(path, error.to_string())),
        }
        let (message, descriptors) = taking_over.receive()?;
        let Message::Offer(offer) = message else {
            return Err(refused(
                path,
                "expected an offer, found another message".to_owned(),
            ));
        };
        let Offer {
            process,
            contents,
            workers,
            listeners,
        } = *offer;
        taking_over.process = process;
        let mut descriptors = descriptors.into_iter();
        let mut ports = Vec::new();
        for worker in workers {
            let handed = worker.into_iter().map(|port| HandedPort {
                descriptors: descriptors.by_ref().take(port.n_descriptors).collect(),
                state: port.state,
            });
            ports.push(handed.collect());
        }
        let listeners = listeners.into_iter().zip(descriptors);
        let listeners = listeners.map(|(listener, descriptor)| {
            Ok(PassedListener {
                service: listener.service,
                address: listener.address.parse::<Address>()?,
                descriptor,
            })
        });
        let listeners: Result<_, String> = listeners.collect();
        let offered = Offered {
            contents,
            ports,
            listeners: listeners.map_err(|message| refused(path, message))?,
        };
        Ok(Some((taking_over, offered)))
    }

    /// Takes over: afterwards this process is the switch, and forwards as soon as its loops run.
    pub(crate) fn take(
        mut self,
        workers: &mut Workers,
        handle: &LoopHandle,
    ) -> Result<(), SwitchError> {
        self.connection.begin_step(STATE_MAX);
        self.send(&Message::Prepared)?;
        let (Message::State(states), _) = self.receive()? else {
            return Err(self.refused("expected the workers' state, found another message"));
        };
        go_on_from(states, workers, handle).map_err(|message| self.refused(&message))?;
        self.send(&Message::Taken)?;
        let process = self.process;
        tracing::info!(
            event = "taken_over",
            process,
            "the switch of process {process} is taken over"
        );
        Ok(())
    }

    fn send(&mut self, message: &Message) -> Result<(), SwitchError> {
        let sent = self.connection.send(message, &[]);
        sent.map_err(|error| self.refused(&error.to_string()))
    }

    fn receive(&mut self) -> Result<(Message, Vec<std::os::fd::OwnedFd>), SwitchError> {
        match self.connection.receive() {
            Ok((Message::Refused(reason), _)) => Err(self.refused(&reason)),
            Ok(received) => Ok(received),
            Err(error) => Err(self.refused(&error.to_string())),
        }
    }

    fn refused(&self, message: &str) -> SwitchError {
        refused(&self.path, message.to_owned())
    }
}

fn refused(path: &Path, message: String) -> SwitchError {
    SwitchError::Takeover {
        path: path.to_owned(),
        message,
    }
}

/// Connects, to a process of the same user only: what another user's process offers could be anything.
fn connect(path: &Path) -> Result<Connection, String> {
    let stream = UnixStream::connect(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            "expected a running switch with this --takeover-socket, found none: start without --takeover"
                .to_owned()
        }
        _ => stream_socket::in_words(error).to_string(),
    })?;
    let connection = Connection::new(stream, OFFER_MAX).map_err(|error| error.to_string())?;
    let (user, _) = connection.peer().map_err(|error| error.to_string())?;
    let own = privileges::user();
    if user == own {
        Ok(connection)
    } else {
        Err(format!(
            "expected a switch of user {own}, found one of user {user}: start the new switch as that user"
        ))
    }
}

/// Gives every worker the state of its counterpart in the old process.
fn go_on_from(
    states: Vec<PacketState>,
    workers: &mut Workers,
    handle: &LoopHandle,
) -> Result<(), String> {
    let (mut requests, mut answers) = (Vec::new(), Vec::new());
    for state in states {
        let (sender, answer) = mpsc::channel();
        requests.push(Handover::GoOnFrom(Box::new(state), sender));
        answers.push(answer);
    }
    handle.hand_over(requests);
    // The first worker's event loop does not run yet, so this thread serves its request.
    let served = workers.first_mut().serve_handovers();
    served.map_err(|error| error.to_string())?;
    answers.into_iter().try_for_each(|answer| {
        answer
            .recv_timeout(STATE_MAX)
            .map_err(|_| "a worker was stopped".to_owned())?
    })
}
