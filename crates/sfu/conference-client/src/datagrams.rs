//! Connects programs on this machine with legs. A leg is a participant's connection to the conference service by one
//! UDP socket. Each program exchanges datagrams with one peer. JackTrip is such a program: a musician runs one JackTrip
//! for each other musician.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::Instant;

use crate::media::DATAGRAM_MAX;
use crate::{MediaSocket, NotSent, relay};

/// When the program whose datagrams are published has sent nothing for this long, the next program that sends takes its
/// place.
const SILENCE: Duration = Duration::from_secs(1);

/// The track that this machine publishes. All programs send the same sound, each to its own peer. Therefore only the
/// datagrams of one program, the first, are published as the track; the datagrams of the other programs are dropped.
#[derive(Debug)]
pub struct Published {
    leg: MediaSocket,
    first: First,
}

/// The program whose datagrams are published: the port that it sends to, and when it last sent a datagram.
#[derive(Debug, Default)]
struct First(Mutex<Option<(u16, Instant)>>);

impl First {
    /// Whether the program that now sends to this port is the one whose datagrams are published. If there is no such
    /// program yet, or if that program has been silent for too long, the program that now sends takes its place.
    fn is(&self, port: u16, now: Instant) -> bool {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = |&(it, last): &(u16, Instant)| it != port && now - last < SILENCE;
        if first.as_ref().is_some_and(is_other) {
            return false;
        }
        *first = Some((port, now));
        true
    }
}

impl Published {
    /// Makes a track that is published on this leg, which carries nothing else.
    #[must_use]
    pub fn new(leg: MediaSocket) -> Published {
        Published {
            leg,
            first: First::default(),
        }
    }

    /// Keeps the leg signed in, for ever.
    pub async fn keep(&self) -> Infallible {
        let mut buffer = vec![0; DATAGRAM_MAX];
        loop {
            self.leg.receive(&mut buffer).await;
        }
    }

    async fn send(&self, port: u16, datagram: &[u8]) -> Result<(), NotSent> {
        if self.first.is(port, Instant::now()) {
            self.leg.send(datagram).await
        } else {
            Ok(())
        }
    }
}

/// A port of the loopback interface, for one program.
#[derive(Debug)]
pub struct Near {
    socket: UdpSocket,
    port: u16,
    program: u16,
}

impl Near {
    /// Binds `port` for a program that listens on port `program` and sends to `port`.
    ///
    /// # Errors
    /// The port is taken.
    pub async fn bind(program: u16, port: u16) -> io::Result<Near> {
        Ok(Near {
            socket: relay::bind(port).await?,
            port,
            program,
        })
    }

    /// Sends what the leg receives to the program, for ever. What the program sends is dropped.
    ///
    /// # Errors
    /// A socket of this machine cannot be used any more.
    pub async fn receive(&self, leg: &MediaSocket) -> io::Result<()> {
        let mut buffer = vec![0; DATAGRAM_MAX];
        let read_and_forget = async {
            let mut buffer = vec![0; DATAGRAM_MAX];
            loop {
                self.socket.recv(&mut buffer).await?;
            }
        };
        tokio::select! {
            never = self.to_program(leg, &mut buffer) => match never {},
            ended = read_and_forget => ended,
        }
    }

    /// Does the same as `receive`, but does not drop what the program sends: it is sent on through the leg of
    /// `published`. Calls `too_long` for each datagram that is too long to be sent.
    ///
    /// # Errors
    /// A socket of this machine cannot be used any more.
    pub async fn exchange(
        &self,
        leg: &MediaSocket,
        published: &Published,
        mut too_long: impl FnMut(&NotSent),
    ) -> io::Result<()> {
        let from_program = async {
            let mut buffer = vec![0; DATAGRAM_MAX];
            loop {
                let n = self.socket.recv(&mut buffer).await?;
                match published.send(self.port, &buffer[..n]).await {
                    Err(error @ NotSent::TooLong { .. }) => too_long(&error),
                    // The switch may be away for a moment.
                    Ok(()) | Err(NotSent::System(_)) => {}
                }
            }
        };
        let mut buffer = vec![0; DATAGRAM_MAX];
        tokio::select! {
            never = self.to_program(leg, &mut buffer) => match never {},
            ended = from_program => ended,
        }
    }

    async fn to_program(&self, leg: &MediaSocket, buffer: &mut [u8]) -> Infallible {
        loop {
            let datagram = leg.receive(buffer).await;
            // Sending may fail because the program does not listen yet.
            let _ = self
                .socket
                .send_to(datagram, (Ipv4Addr::LOCALHOST, self.program))
                .await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_program_is_published_until_it_is_silent() {
        let (first, began) = (First::default(), Instant::now());
        let at = |ms| began + Duration::from_millis(ms);
        assert!(first.is(7001, at(0)));
        assert!(!first.is(7003, at(500)));
        assert!(first.is(7001, at(900)));
        assert!(
            !first.is(7003, at(1_899)),
            "the first one's silence counts from its last datagram"
        );
        assert!(first.is(7003, at(1_900)));
        assert!(!first.is(7001, at(1_901)));
    }
}
