//! The Thrift connection to the switch, over which each call gets one answer.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bmv2_thrift::exception::{
    CounterCode, Exception, HashCode, MeterCode, MirrorCode, MulticastCode, PortCode, RegisterCode,
    SwapCode, TableCode, ValueSetCode,
};
use bmv2_thrift::wire::Kind;
use bmv2_thrift::wire::read::{self, Message};
use bmv2_thrift::wire::scan::Scan;
use bmv2_thrift::{Args, ArgsError, Call};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::error::{Ended, Error};
use crate::limits::{ANSWER_S, CHUNK_BYTES, CONNECT_S};

/// What a call is about. This decides which codes the exceptions of the call can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Table,
    Counter,
    Register,
    Meter,
    ValueSet,
    Swap,
    Port,
    Crc,
    Multicast,
    Mirroring,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Table => "table operation",
            Self::Counter => "counter operation",
            Self::Register => "register operation",
            Self::Meter => "meter operation",
            Self::ValueSet => "parser value set operation",
            Self::Swap => "swap operation",
            Self::Port => "device manager operation",
            Self::Crc => "crc operation",
            Self::Multicast => "PRE operation",
            Self::Mirroring => "mirroring operation",
        }
    }

    fn code(self, number: i32) -> Option<&'static str> {
        match self {
            Self::Table => TableCode::name(number),
            Self::Counter => CounterCode::name(number),
            Self::Register => RegisterCode::name(number),
            Self::Meter => MeterCode::name(number),
            Self::ValueSet => ValueSetCode::name(number),
            Self::Swap => SwapCode::name(number),
            Self::Port => PortCode::name(number),
            Self::Crc => HashCode::name(number),
            Self::Multicast => MulticastCode::name(number),
            Self::Mirroring => MirrorCode::name(number),
        }
    }

    fn refused(self, exception: Exception) -> Error {
        let code = self.code(exception.code);
        Error::Refused {
            operation: self.name(),
            code: code.map_or_else(|| exception.code.to_string(), str::to_owned),
            reason: exception.message,
        }
    }
}

/// An answer, with its result in field 0.
#[derive(Debug)]
pub struct Answer(Message);

impl Answer {
    pub fn args(&self) -> Args<'_> {
        Args::new(&self.0.fields)
    }

    pub fn structure<T: bmv2_thrift::message::Structure>(&self) -> Result<T, Error> {
        match self.args().fields(0)? {
            Some(fields) => Ok(T::read(fields)?),
            None => Err(without_result(&self.0.name)),
        }
    }

    pub fn result<'a, T>(
        &'a self,
        read: impl FnOnce(Args<'a>, i16) -> Result<T, ArgsError>,
    ) -> Result<T, Error> {
        if self.args().has(0) {
            Ok(read(self.args(), 0)?)
        } else {
            Err(without_result(&self.0.name))
        }
    }
}

fn without_result(call: &str) -> Error {
    Error::Ended(Ended::Switch(format!(
        "the switch's answer to {call} is empty"
    )))
}

/// Prefix of a Unix socket's path, in place of a host.
const UNIX: &str = "unix:";

trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

pub struct Connection {
    stream: Box<dyn Stream>,
    received: Vec<u8>,
    number: i32,
}

impl Connection {
    /// # Errors
    /// Nothing accepts the connection; the text has the reason.
    pub fn open(host: &str, port: u16) -> Result<Self, String> {
        if let Some(path) = host.strip_prefix(UNIX) {
            // gRPC also allows unix:///PATH.
            let path = path.strip_prefix("//").unwrap_or(path);
            return Self::over_socket(path).map_err(|error| format!("{host}: {error}"));
        }
        let here = |error: io::Error| format!("{host}:{port}: {error}");
        let mut last = format!("{host}: no such host");
        for address in (host, port).to_socket_addrs().map_err(here)? {
            match TcpStream::connect_timeout(&address, Duration::from_secs(CONNECT_S)) {
                Ok(stream) => return Self::over(stream).map_err(here),
                Err(error) => last = format!("{address}: {error}"),
            }
        }
        Err(last)
    }

    fn over(stream: TcpStream) -> io::Result<Self> {
        let timeout = Some(Duration::from_secs(ANSWER_S));
        stream.set_nodelay(true)?;
        stream.set_read_timeout(timeout)?;
        stream.set_write_timeout(timeout)?;
        Ok(Self::with(Box::new(stream)))
    }

    fn over_socket(path: &str) -> io::Result<Self> {
        let stream = connect_unix(path, Duration::from_secs(CONNECT_S))?;
        let timeout = Some(Duration::from_secs(ANSWER_S));
        stream.set_read_timeout(timeout)?;
        stream.set_write_timeout(timeout)?;
        Ok(Self::with(Box::new(stream)))
    }

    fn with(stream: Box<dyn Stream>) -> Self {
        Self {
            stream,
            received: Vec::new(),
            number: 0,
        }
    }

    pub fn call(
        &mut self,
        service: &str,
        call: Call,
        operation: Operation,
    ) -> Result<Answer, Error> {
        self.number = self.number.wrapping_add(1);
        let name = call.name();
        let sent = self.stream.write_all(&call.encoded(service, self.number));
        sent.map_err(|error| lost(name, &error))?;
        let answer = self.receive(name)?;
        self.expect(name, &answer)?;
        if answer.kind == Some(Kind::Exception) {
            let message = Args::new(&answer.fields).bytes(1)?;
            let message = String::from_utf8_lossy(message);
            return Err(Error::input(format!("{name}: {message}")));
        }
        match Args::new(&answer.fields).fields(1)? {
            Some(exception) => Err(operation.refused(Exception::read(exception)?)),
            None => Ok(Answer(answer)),
        }
    }

    fn receive(&mut self, name: &str) -> Result<Message, Ended> {
        let mut scan = Scan::of_answer();
        let no_answer = |error| {
            Ended::Switch(format!(
                "the received bytes are no answer to {name}, so this is no switch's Thrift server: {error}"
            ))
        };
        loop {
            if let Some(n_bytes) = scan.length(&self.received).map_err(no_answer)? {
                let message = read::message(&self.received[..n_bytes]).map_err(no_answer)?;
                self.received.drain(..n_bytes);
                self.received.shrink_to(CHUNK_BYTES);
                return Ok(message);
            }
            let before = self.received.len();
            self.received.resize(before + CHUNK_BYTES, 0);
            let read = self.stream.read(&mut self.received[before..]);
            self.received
                .truncate(before + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(closed(name, before)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(name, &error)),
            }
        }
    }

    fn expect(&self, name: &str, answer: &Message) -> Result<(), Ended> {
        let is_kind = matches!(answer.kind, Some(Kind::Reply | Kind::Exception));
        if answer.name == name && answer.number == self.number && is_kind {
            return Ok(());
        }
        Err(Ended::Switch(format!(
            "expected the answer to {name}, number {}, found that to {:?}, number {}",
            self.number, answer.name, answer.number
        )))
    }
}

/// Connects to a Unix socket with a timeout, because its listener may never have room for another
/// connection.
fn connect_unix(path: &str, timeout: Duration) -> io::Result<UnixStream> {
    let failed = |kind, what: String| io::Error::new(kind, what);
    let address = SockAddr::unix(path).map_err(|_| {
        let kind = io::ErrorKind::InvalidInput;
        failed(
            kind,
            format!(
                "expected a file, of a path of 107 bytes at most, found {} bytes",
                path.len()
            ),
        )
    })?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // connect(2) on a Unix socket waits for room as long as SO_SNDTIMEO allows (unix(7)).
    socket.set_write_timeout(Some(timeout))?;
    socket
        .connect(&address)
        .map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => failed(
                io::ErrorKind::TimedOut,
                format!(
                    "somebody listens there, and has accepted no connection for {} seconds",
                    timeout.as_secs()
                ),
            ),
            kind @ io::ErrorKind::NotFound => failed(
                kind,
                "there is no such socket: name that of the switch's --thrift-socket".to_owned(),
            ),
            kind if is_of_another_type(&error) => failed(
                kind,
                "expected the socket of a switch's Thrift, found one of another type".to_owned(),
            ),
            _ => error,
        })?;
    Ok(OwnedFd::from(socket).into())
}

/// Whether the error is EPROTOTYPE, which `io::ErrorKind` lacks: the socket has another type, such as datagram.
fn is_of_another_type(error: &io::Error) -> bool {
    const EPROTOTYPE: i32 = 91;
    error.raw_os_error() == Some(EPROTOTYPE)
}

fn closed(call: &str, n_bytes: usize) -> Ended {
    let when = match n_bytes {
        0 => "before it answered",
        _ => "within its answer to",
    };
    Ended::Switch(format!("the switch closed the connection {when} {call}"))
}

fn lost(call: &str, error: &io::Error) -> Ended {
    Ended::Switch(match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("the switch has not answered {call} for {ANSWER_S} seconds")
        }
        _ => format!("the connection to the switch is lost in {call}: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_accepts_nothing_is_given_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("full.sock");
        let path = path.to_str().expect("a name");
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
        let address = SockAddr::unix(path).expect("an address");
        socket.bind(&address).expect("bound");
        socket.listen(0).expect("listens");
        let _waits = UnixStream::connect(path).expect("the only place");
        let error = connect_unix(path, Duration::from_millis(20)).expect_err("it is full");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    }

    #[test]
    fn what_no_switch_listens_on_is_reported_with_what_was_expected() {
        let folder = tempfile::tempdir().expect("a folder");
        let of = |name: &str| folder.path().join(name).display().to_string();
        let _datagrams = std::os::unix::net::UnixDatagram::bind(of("datagrams")).expect("a socket");
        let long = "s".repeat(100);
        for (name, expected) in [
            ("nowhere", "--thrift-socket"),
            ("datagrams", "found one of another type"),
            (&long, "107 bytes at most"),
        ] {
            let error = connect_unix(&of(name), Duration::from_secs(1)).expect_err(name);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }
}
