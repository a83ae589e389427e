//! Holds the answers of a Read until the client's connection takes them. The bytes of waiting answers are bounded, for
//! each connection and for all connections together. Answers that the client does not take in time are discarded.
//!
//! A Read reserves room for the answers that the transport buffers before it sends them, and for one more that waits
//! here. So each Read makes progress. Further waiting answers need room of their own.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use p4runtime_proto::p4::v1::ReadResponse;
use tokio::sync::Notify;
use tokio_stream::Stream;
use tonic::{Code, Status};

use crate::bytes::{Bytes, Held};
use crate::caller::Caller;
use crate::device::lock;
use crate::error::{EntityError, EntityResult};
use crate::limits::ANSWER_RESERVE_BYTES;

/// The end to which a Read writes its answers.
pub(crate) struct AnswerSender {
    shared: Arc<Shared>,
    caller: Caller,
    bytes: Bytes,
    stall: Duration,
}

/// The end from which the transport takes answers.
pub(crate) struct AnswerReceiver(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified each time the transport asks for an answer, and when the receiver is dropped.
    taken: Notify,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(ReadResponse, Option<Held>)>,
    /// Room for the first of the waiting answers, and for the answers that the transport has taken.
    reserve: Option<Held>,
    end: Option<Result<(), Status>>,
    n_taken: u64,
    is_gone: bool,
    waker: Option<Waker>,
}

impl State {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Makes both ends for a caller's Read once there is room in `bytes`, the budget of all Reads.
pub(crate) async fn answers(
    caller: Caller,
    bytes: Bytes,
    stall: Duration,
) -> EntityResult<(AnswerSender, AnswerReceiver)> {
    let reserve = tokio::time::timeout(stall, bytes.hold(&caller, ANSWER_RESERVE_BYTES)).await;
    let state = State {
        reserve: Some(reserve.map_err(|_| no_room(&bytes))?),
        ..State::default()
    };
    let shared = Arc::new(Shared {
        state: Mutex::new(state),
        taken: Notify::new(),
    });
    let receiver = AnswerReceiver(Arc::clone(&shared));
    let sender = AnswerSender {
        shared,
        caller,
        bytes,
        stall,
    };
    Ok((sender, receiver))
}

fn no_room(bytes: &Bytes) -> EntityError {
    let message = format!(
        "{} wait until clients take them: take the answers to earlier Reads, then read again, and less at once",
        bytes.described()
    );
    EntityError::new(Code::ResourceExhausted, message)
}

impl AnswerSender {
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.shared.state).is_gone
    }

    /// Sends an answer if there is room for it; if there is none, returns the answer as the error.
    pub(crate) fn try_send(
        &self,
        response: ReadResponse,
        n_bytes: usize,
    ) -> Result<(), ReadResponse> {
        if lock(&self.shared.state).waiting.is_empty() {
            self.push(response, None);
            return Ok(());
        }
        match self.bytes.try_hold(&self.caller, n_bytes) {
            Some(held) => {
                self.push(response, Some(held));
                Ok(())
            }
            None => Err(response),
        }
    }

    /// Sends an answer once there is room for it, or once no other answer waits. Fails if the transport takes nothing
    /// for `stall`.
    pub(crate) async fn send(&self, mut response: ReadResponse, n_bytes: usize) -> EntityResult {
        let mut before = self.n_taken();
        loop {
            response = match self.try_send(response, n_bytes) {
                Ok(()) => return Ok(()),
                Err(response) => response,
            };
            tokio::select! {
                held = self.bytes.hold(&self.caller, n_bytes) => {
                    self.push(response, Some(held));
                    return Ok(());
                }
                () = self.shared.taken.notified() => before = self.n_taken(),
                () = tokio::time::sleep(self.stall) => {
                    let now = self.n_taken();
                    if now == before {
                        return Err(no_room(&self.bytes));
                    }
                    before = now;
                }
            }
        }
    }

    fn n_taken(&self) -> u64 {
        lock(&self.shared.state).n_taken
    }

    fn push(&self, response: ReadResponse, held: Option<Held>) {
        let mut state = lock(&self.shared.state);
        if !state.is_gone {
            state.waiting.push_back((response, held));
            state.wake();
        }
    }

    /// Ends the stream of answers, and waits until the client has taken all of them or is gone. If the client takes
    /// nothing for `stall`, this discards the waiting answers. If it then takes nothing for twice `stall`, this closes
    /// the connection.
    pub(crate) async fn finish(self, end: Result<(), Status>) {
        self.end(end);
        if self.is_taken(1).await {
            return;
        }
        lock(&self.shared.state).waiting.clear();
        self.end(Err(Status::resource_exhausted(format!(
            "the answer was discarded, since the client read nothing of it for {} s: read it at once, or ask for less",
            self.stall.as_secs()
        ))));
        if self.is_taken(2).await {
            return;
        }
        tracing::warn!(
            event = "reader_cut",
            peer = %self.caller.connection().peer(),
            "the connection of {} is closed, since its client does not take the answer to a Read",
            self.caller.connection().peer()
        );
        self.caller.connection().cut();
    }

    fn end(&self, end: Result<(), Status>) {
        let mut state = lock(&self.shared.state);
        state.end = Some(end);
        state.wake();
    }

    /// Waits until the receiver is dropped, and returns true. Returns false if the transport took nothing for
    /// `n_stalls` times `stall`.
    async fn is_taken(&self, n_stalls: u32) -> bool {
        loop {
            let before = self.n_taken();
            let waiting = tokio::time::timeout(self.stall * n_stalls, self.shared.taken.notified());
            let is_stalled = waiting.await.is_err() && self.n_taken() == before;
            if self.is_closed() {
                return true;
            }
            if is_stalled {
                return false;
            }
        }
    }
}

impl Stream for AnswerReceiver {
    type Item = Result<ReadResponse, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut state = lock(&self.0.state);
        state.n_taken += 1;
        self.0.taken.notify_one();
        if let Some((response, _)) = state.waiting.pop_front() {
            return Poll::Ready(Some(Ok(response)));
        }
        match &mut state.end {
            Some(end) => Poll::Ready(std::mem::replace(end, Ok(())).err().map(Err)),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for AnswerReceiver {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.is_gone = true;
        state.waiting.clear();
        state.reserve = None;
        self.0.taken.notify_one();
    }
}
