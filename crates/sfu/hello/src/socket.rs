//! A host's side: when to send which hello from a socket.

use std::time::Duration;

use crate::{Hello, KEY_LEN, Kind, LEN, NONCE_LEN, is_alive, is_signed_with};

/// The first and the longest pause between hellos as long as no hello is answered. The pause doubles after each hello.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The pause between hellos of a socket that is signed in. Address translators (NAT) keep a socket's address for 30
/// seconds and more (RFC 4787, section 4.3). With this pause, a host also notices within seconds that a switch was
/// restarted.
const REFRESH: Duration = Duration::from_secs(1);
/// After this many hellos in a row without an answer, the socket counts as not signed in any more.
const UNANSWERED_MAX: u32 = 3;

/// What a datagram from the switch's media address means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Received {
    /// The datagram is media, or is ignored.
    Other,
    /// The socket is signed in; it was not before.
    SignedIn,
    /// The socket is still signed in.
    Alive,
    /// The service has sent a challenge. [`SigningIn::hello`] returns the hello that answers it.
    Challenged,
}

/// Signs one socket in, and keeps it signed in. Times are of any clock that does not go back.
#[derive(Clone)]
pub struct SigningIn {
    leg: u32,
    key: [u8; KEY_LEN],
    nonce: [u8; NONCE_LEN],
    sent: Option<[u8; LEN]>,
    is_signed_in: bool,
    n_unanswered: u32,
    pause: Duration,
    next: Duration,
}

impl std::fmt::Debug for SigningIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "leg {}, signed in: {}", self.leg, self.is_signed_in)
    }
}

impl SigningIn {
    /// Begins to sign a socket in to the leg with this number and key.
    #[must_use]
    pub fn new(leg: u32, key: [u8; KEY_LEN]) -> SigningIn {
        SigningIn {
            leg,
            key,
            nonce: [0; NONCE_LEN],
            sent: None,
            is_signed_in: false,
            n_unanswered: 0,
            pause: FIRST_PAUSE,
            next: Duration::ZERO,
        }
    }

    /// Whether the socket is signed in, as far as the host knows.
    #[must_use]
    pub fn is_signed_in(&self) -> bool {
        self.is_signed_in
    }

    /// The time from which [`SigningIn::hello`] returns the next hello.
    #[must_use]
    pub fn next(&self) -> Duration {
        self.next
    }

    /// Returns the hello to send now, if it is time for one; `wall_ms` is the host's clock in milliseconds since 1970.
    pub fn hello(&mut self, now: Duration, wall_ms: u64) -> Option<[u8; LEN]> {
        if now < self.next {
            return None;
        }
        if self.n_unanswered >= UNANSWERED_MAX {
            self.is_signed_in = false;
        }
        self.next = now
            + if self.is_signed_in {
                REFRESH
            } else {
                self.pause
            };
        if !self.is_signed_in {
            self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        }
        self.n_unanswered += 1;
        let hello = Hello {
            kind: Kind::Hello,
            leg: self.leg,
            time_ms: wall_ms,
            nonce: self.nonce,
        };
        let sent = hello.sign(&self.key);
        self.sent = Some(sent);
        Some(sent)
    }

    /// Takes a datagram that came from the switch.
    pub fn receive(&mut self, bytes: &[u8], now: Duration) -> Received {
        let Ok(hello) = Hello::decode(bytes) else {
            return Received::Other;
        };
        if hello.leg != self.leg {
            return Received::Other;
        }
        match hello.kind {
            Kind::Alive if self.sent.is_some_and(|sent| is_alive(bytes, &sent)) => {
                self.answered(now)
            }
            Kind::Welcome if is_signed_with(bytes, &self.key) && hello.nonce == self.nonce => {
                self.answered(now)
            }
            Kind::Challenge if is_signed_with(bytes, &self.key) && hello.nonce != self.nonce => {
                self.nonce = hello.nonce;
                self.next = now;
                self.pause = FIRST_PAUSE;
                Received::Challenged
            }
            _ => Received::Other,
        }
    }

    fn answered(&mut self, now: Duration) -> Received {
        self.n_unanswered = 0;
        self.pause = FIRST_PAUSE;
        if self.is_signed_in {
            return Received::Alive;
        }
        self.is_signed_in = true;
        self.next = now + REFRESH;
        Received::SignedIn
    }
}
