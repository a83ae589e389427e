//! Decides what a hello leads to. A hello is the datagram with which a host signs a socket in. The service keeps
//! nothing about a host that has not signed in.

use conference_model::{BindingRecord, Model};
use hello::{Hello, Kind, NoHello, Nonces, is_signed_with};

/// What a hello leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// No answer: a stranger does not learn which legs (connections of participants by UDP sockets) there are, and
    /// cannot make the switch send packets to somebody else.
    Ignored(Ignored),
    /// The service answers the hello, and nothing changes.
    Answered(Hello),
    /// The sender's socket becomes the socket of the leg. The answer is sent once the sign-in is stored and the switch
    /// has the leg's entries.
    SignsIn { leg: u16, welcome: Hello },
}

/// Why a hello gets no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Ignored {
    #[error(transparent)]
    NoHello(#[from] NoHello),
    /// The datagram is an answer to a hello. Only a host gets answers.
    #[error("expected a hello, found an answer to one")]
    Answer,
    /// The hello is for a leg that does not exist, or no longer exists.
    #[error("there is no leg {0}")]
    UnknownLeg(u32),
    /// The socket that the leg has is still sending. If another socket replaced it, two sockets with the leg's key
    /// would replace each other for ever.
    #[error(
        "another socket of leg {0} still sends: it is replaced when it has been silent for 3 seconds"
    )]
    InUse(u16),
    /// The hello was signed with another key.
    #[error("a hello for leg {0} with a wrong signature")]
    Signature(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clocks {
    /// A clock that does not go back, for nonces.
    pub steady_ms: u64,
    /// The time that answers to hellos contain, in milliseconds since 1970.
    pub wall_ms: u64,
}

/// Decides what a hello leads to. `still_sends` gets a leg and the socket that is signed in to it, and returns whether
/// this socket may still be sending.
#[must_use]
pub fn decide(
    model: &Model,
    nonces: &Nonces,
    clocks: Clocks,
    from: &BindingRecord,
    payload: &[u8],
    still_sends: impl Fn(u16, &BindingRecord) -> bool,
) -> Outcome {
    let hello = match Hello::decode(payload) {
        Ok(hello) => hello,
        Err(why) => return Outcome::Ignored(why.into()),
    };
    if hello.kind != Kind::Hello {
        return Outcome::Ignored(Ignored::Answer);
    }
    let found = u16::try_from(hello.leg)
        .ok()
        .and_then(|leg| Some((leg, model.leg_record(leg)?)));
    let Some((leg, record)) = found else {
        return Outcome::Ignored(Ignored::UnknownLeg(hello.leg));
    };
    if !is_signed_with(payload, &record.key) {
        return Outcome::Ignored(Ignored::Signature(hello.leg));
    }
    let origin = from.origin();
    let answer = |kind, nonce| Hello {
        kind,
        leg: hello.leg,
        time_ms: clocks.wall_ms,
        nonce,
    };
    if !nonces.is_nonce(&hello.nonce, hello.leg, &origin, clocks.steady_ms) {
        let nonce = nonces.nonce(hello.leg, &origin, clocks.steady_ms);
        return Outcome::Answered(answer(Kind::Challenge, nonce));
    }
    let welcome = answer(Kind::Welcome, hello.nonce);
    if let Some(there) = model.binding(leg) {
        if there == from {
            return Outcome::Answered(welcome);
        }
        // A socket whose datagrams come over another router, or go to another address of the switch, is still the same
        // socket.
        if !there.is_same_socket(from) && still_sends(leg, there) {
            return Outcome::Ignored(Ignored::InUse(leg));
        }
    }
    Outcome::SignsIn { leg, welcome }
}
