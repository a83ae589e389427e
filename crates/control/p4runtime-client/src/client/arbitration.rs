//! How a client becomes primary: the stream on which it bids for the primary role, and how it waits while another
//! controller has the role.
//!
//! `become_primary` and `await_primary` bid an election id that is one higher than the highest that the switch has
//! seen. The switch answers a bid without an id with that highest id (P4Runtime specification 1.4.1, "Client
//! Arbitration and Controller Replication").

use std::time::Duration;

use p4runtime_proto::p4::v1::{
    self as p4, MasterArbitrationUpdate, StreamMessageRequest, StreamMessageResponse, Uint128,
    stream_message_request, stream_message_response,
};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};

use super::Client;
use crate::error::{ClientError, Peer, in_time};
use crate::limits::{ARBITRATION_TRIES, BID_PAUSE_MS, CONNECT_TIMEOUT_MS, QUIET_WAIT_MS};

#[derive(Debug)]
pub(super) struct Primary {
    pub(super) election_id: u128,
    pub(super) stream: Stream,
}

/// The reason in an error if the stream ends while the client bids.
const BY_THE_SWITCH: &str = "the switch closed it";

/// Result of a bid for the primary role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bid {
    /// The client is primary.
    Primary,
    /// The bid lost: the switch has already seen an election id that is at least as high.
    TooLow {
        /// The highest election id that the switch has seen.
        highest: u128,
        /// Whether the controller with that id is connected, and is therefore primary.
        somebody_is_primary: bool,
    },
}

/// The content of an arbitration message.
pub(super) struct Seen {
    pub(super) is_primary: bool,
    somebody_is_primary: bool,
    /// The highest election id that the switch has seen.
    pub(super) election_id: u128,
}

impl Seen {
    pub(super) fn of(update: &MasterArbitrationUpdate) -> Seen {
        let code = update.status.as_ref().map(|status| Code::from(status.code));
        Seen {
            is_primary: code == Some(Code::Ok),
            // P4Runtime 1.4.1, "Client Arbitration": NOT_FOUND would mean that no controller is primary.
            somebody_is_primary: code == Some(Code::AlreadyExists),
            election_id: number(update.election_id.unwrap_or_default()),
        }
    }
}

#[derive(Debug)]
pub(super) struct Stream {
    requests: mpsc::Sender<StreamMessageRequest>,
    responses: Streaming<StreamMessageResponse>,
}

impl Stream {
    pub(super) async fn send(
        &mut self,
        update: stream_message_request::Update,
        closed: &str,
    ) -> Result<(), ClientError> {
        let request = StreamMessageRequest {
            update: Some(update),
        };
        let sent = self.requests.send(request).await;
        sent.map_err(|_| ClientError::closed(closed))
    }

    pub(super) async fn next(&mut self) -> Result<StreamMessageResponse, ClientError> {
        let message = self.responses.message().await;
        let message =
            message.map_err(|status| ClientError::closed(printable::line(status.message())))?;
        message.ok_or_else(|| ClientError::closed("no reason given"))
    }

    async fn arbitration_answer(&mut self, peer: &Peer) -> Result<Seen, ClientError> {
        let answer = self.next_arbitration(peer);
        in_time("arbitration", CONNECT_TIMEOUT_MS, answer).await?
    }

    async fn next_arbitration(&mut self, peer: &Peer) -> Result<Seen, ClientError> {
        loop {
            let message = self.responses.message().await;
            let message = message.map_err(|status| peer.error("arbitration", &status))?;
            let message = message.ok_or_else(|| ClientError::closed("during arbitration"))?;
            if let Some(stream_message_response::Update::Arbitration(update)) = message.update {
                return Ok(Seen::of(&update));
            }
        }
    }
}

impl Client {
    /// The election id that this client's writes carry; `None` if the client is not primary.
    pub fn election_id(&self) -> Option<u128> {
        self.primary.as_ref().map(|primary| primary.election_id)
    }

    /// Becomes primary at once and takes the role from the current primary.
    ///
    /// # Errors
    /// The switch has another device number, or others kept bidding higher.
    pub async fn become_primary(&mut self) -> Result<(), ClientError> {
        if self.primary.is_some() {
            return Ok(());
        }
        let mut highest = 0;
        for _ in 0..ARBITRATION_TRIES {
            let mut stream = self.open_stream().await?;
            highest = stream
                .arbitration_answer(&self.reader.peer)
                .await?
                .election_id;
            if self.bid(stream, highest).await? {
                return Ok(());
            }
            if highest == u128::MAX {
                return Err(ClientError::Unbeatable);
            }
        }
        Err(ClientError::Outbid { highest })
    }

    /// Waits until no controller is primary, then bids one more than the highest election id seen at that moment. So
    /// the bid never exceeds the id of a controller that became primary since, and exactly one of several waiting
    /// controllers wins. If the wait takes long, `waits` is called once, with the election id of the primary if there
    /// is one.
    ///
    /// # Errors
    /// The switch has another device number, or another controller was still primary after `wait`.
    pub async fn await_primary(
        &mut self,
        wait: Duration,
        mut waits: impl FnMut(Option<u128>),
    ) -> Result<(), ClientError> {
        let began = Instant::now();
        let until = began + wait;
        let mut report_at = Some(began + Duration::from_millis(QUIET_WAIT_MS));
        let mut tries = 0;
        while self.primary.is_none() {
            let free = self
                .await_no_primary(until, &mut report_at, &mut waits)
                .await;
            let busy = match free {
                Ok((stream, highest)) => {
                    if self.bid(stream, highest).await? {
                        return Ok(());
                    }
                    ClientError::Busy {
                        election_id: highest.saturating_add(1),
                        wait_s: wait.as_secs(),
                    }
                }
                Err(error @ ClientError::TooManyControllers { .. }) => error,
                Err(ClientError::Busy { election_id, .. }) => {
                    let wait_s = wait.as_secs();
                    return Err(ClientError::Busy {
                        election_id,
                        wait_s,
                    });
                }
                Err(error) => return Err(error),
            };
            if Instant::now() >= until {
                return Err(busy);
            }
            report(&mut report_at, &mut waits, None);
            // The pause differs by process, so that controllers that lost together do not retry together.
            tries += 1;
            let pause_ms = u64::from(std::process::id()) * tries % BID_PAUSE_MS + 1;
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        }
        Ok(())
    }

    /// Waits until there is no primary. Returns the stream on which the switch reported this, and the highest election
    /// id.
    async fn await_no_primary(
        &mut self,
        until: Instant,
        report_at: &mut Option<Instant>,
        waits: &mut impl FnMut(Option<u128>),
    ) -> Result<(Stream, u128), ClientError> {
        let mut stream = self.open_stream().await?;
        let mut seen = stream.arbitration_answer(&self.reader.peer).await?;
        while seen.somebody_is_primary {
            let next_at = report_at.map_or(until, |at| at.min(until));
            match tokio::time::timeout_at(next_at, stream.next_arbitration(&self.reader.peer)).await
            {
                Ok(answer) => seen = answer?,
                Err(_) if Instant::now() >= until => {
                    return Err(ClientError::Busy {
                        election_id: seen.election_id,
                        wait_s: 0,
                    });
                }
                Err(_) => report(report_at, waits, Some(seen.election_id)),
            }
        }
        Ok((stream, seen.election_id))
    }

    /// Opens the stream and sends a bid without an id, whose answer has the highest election id.
    async fn open_stream(&mut self) -> Result<Stream, ClientError> {
        let (requests, receiver) = mpsc::channel(16);
        // The first message is queued before the call, since a server may wait for this message before it answers the
        // call.
        let first = StreamMessageRequest {
            update: Some(self.arbitration(None)),
        };
        let sent = requests.send(first).await;
        sent.map_err(|_| ClientError::closed(BY_THE_SWITCH))?;
        let opened = self
            .reader
            .p4runtime
            .stream_channel(ReceiverStream::new(receiver));
        let answer = self
            .reader
            .peer
            .answer("the stream", CONNECT_TIMEOUT_MS, opened);
        let responses = answer.await?;
        Ok(Stream {
            requests,
            responses,
        })
    }

    /// Bids once, with an election id that is one above `highest`. Before the answer, the switch may send arbitration
    /// updates about other controllers; these updates have lower ids.
    async fn bid(&mut self, stream: Stream, highest: u128) -> Result<bool, ClientError> {
        let bid = self.bid_exactly(stream, highest.saturating_add(1)).await?;
        Ok(bid == Bid::Primary)
    }

    async fn bid_exactly(&mut self, mut stream: Stream, bid: u128) -> Result<Bid, ClientError> {
        stream
            .send(self.arbitration(Some(bid)), BY_THE_SWITCH)
            .await?;
        loop {
            match stream.arbitration_answer(&self.reader.peer).await {
                Ok(seen) if seen.is_primary && seen.election_id == bid => {
                    self.primary = Some(Primary {
                        election_id: bid,
                        stream,
                    });
                    return Ok(Bid::Primary);
                }
                Ok(seen) if seen.election_id >= bid => {
                    return Ok(Bid::TooLow {
                        highest: seen.election_id,
                        somebody_is_primary: seen.somebody_is_primary,
                    });
                }
                Ok(_) => {}
                // Another controller bid the same id first.
                Err(ClientError::Refused {
                    code: Code::InvalidArgument,
                    ..
                }) => {
                    return Ok(Bid::TooLow {
                        highest: bid,
                        somebody_is_primary: true,
                    });
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Bids for the primary role with this election id. The bid loses if another controller has or had this id or a
    /// higher one.
    ///
    /// # Errors
    /// The switch has another device number, or does not answer.
    pub async fn become_primary_as(&mut self, election_id: u128) -> Result<Bid, ClientError> {
        self.step_down();
        let mut stream = self.open_stream().await?;
        stream.arbitration_answer(&self.reader.peer).await?;
        self.bid_exactly(stream, election_id).await
    }

    /// Closes the stream, so that another controller can become primary.
    pub fn step_down(&mut self) {
        self.primary = None;
    }

    /// The election id of the primary, if there is one.
    ///
    /// # Errors
    /// The switch has another device number, or does not answer.
    pub async fn primary_elsewhere(&mut self) -> Result<Option<u128>, ClientError> {
        let mut stream = self.open_stream().await?;
        let seen = stream.arbitration_answer(&self.reader.peer).await?;
        Ok(seen.somebody_is_primary.then_some(seen.election_id))
    }

    fn arbitration(&self, bid: Option<u128>) -> stream_message_request::Update {
        let role = (!self.reader.role.is_empty()).then(|| p4::Role {
            name: self.reader.role.clone(),
            ..p4::Role::default()
        });
        stream_message_request::Update::Arbitration(MasterArbitrationUpdate {
            device_id: self.reader.peer.device_id,
            role,
            election_id: bid.map(uint128),
            status: None,
        })
    }
}

/// Calls `waits` if the time `at` has come, and clears `at` so that this happens only once.
fn report(at: &mut Option<Instant>, waits: &mut impl FnMut(Option<u128>), primary: Option<u128>) {
    if at.take_if(|at| Instant::now() >= *at).is_some() {
        waits(primary);
    }
}

fn number(id: Uint128) -> u128 {
    u128::from(id.high) << 64 | u128::from(id.low)
}

pub(super) fn uint128(value: u128) -> Uint128 {
    Uint128 {
        high: (value >> 64) as u64,
        low: value as u64,
    }
}
