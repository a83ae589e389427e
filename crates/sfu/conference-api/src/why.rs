//! What stands between a publisher and a receiver.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{LegTraffic, Name, TrackPath};

/// Why a participant receives a track or not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// The participant who should receive the track.
    pub participant: Name,
    /// The track, with the participant who should publish it.
    pub path: TrackPath,
    /// The causes, the nearest to the publisher first; empty if the switch forwards the track to the receiver.
    pub causes: Vec<Cause>,
    /// What to do about the first cause; empty if there is none.
    pub next: String,
    /// What the publisher's leg has sent; all 0 if no socket is signed in to it.
    pub publisher: LegTraffic,
    /// What the receiver's leg has received for all its subscriptions together; all 0 if no socket is signed in to it.
    pub receiver: LegTraffic,
}

/// A cause for which a receiver does not get a publisher's track. The causes are in order, from publisher to receiver.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The publisher is not in the conference.
    NoPublisher,
    /// The publisher has no such track.
    NotPublished,
    /// The track is muted, so nobody receives it.
    Muted,
    /// The publisher's socket is not signed in.
    PublisherNotSignedIn,
    /// The publisher's packets are split into IP fragments, which the switch drops.
    Fragmented,
    /// The publisher's socket is signed in, and has sent no media for some seconds.
    PublisherSilent,
    /// The publisher sends more than its rate, and the switch drops some.
    Policed,
    /// The publisher's packets are not RTP.
    NotRtp,
    /// The receiver has not subscribed to the track.
    NotSubscribed,
    /// The receiver's socket is not signed in.
    ReceiverNotSignedIn,
    /// The service is not connected to the switch. The switch may forward as before, but lacks later changes.
    SwitchAway,
    /// The switch does not have all entries yet; the service is writing them.
    NotWritten,
    /// The interface of the receiver's port is down or gone.
    PortDown,
    /// The receiver's port drops copies: they are longer than its MTU allows.
    TooLong,
    /// The receiver's port drops copies: its queue in the kernel is full.
    NoRoom,
    /// The receiver's port drops copies: its host has no route to a receiver.
    NoRoute,
    /// The receiver's port drops copies: the device refuses them.
    DeviceRefused,
}

impl Cause {
    /// All causes, in the order in which [`Why::causes`] has them.
    pub const ALL: [Cause; 17] = [
        Cause::NoPublisher,
        Cause::NotPublished,
        Cause::Muted,
        Cause::PublisherNotSignedIn,
        Cause::Fragmented,
        Cause::PublisherSilent,
        Cause::Policed,
        Cause::NotRtp,
        Cause::NotSubscribed,
        Cause::ReceiverNotSignedIn,
        Cause::SwitchAway,
        Cause::NotWritten,
        Cause::PortDown,
        Cause::TooLong,
        Cause::NoRoom,
        Cause::NoRoute,
        Cause::DeviceRefused,
    ];

    /// Returns what to do about the cause, for people to read.
    #[must_use]
    pub fn next(self) -> &'static str {
        match self {
            Cause::NoPublisher => "the publisher joins: nobody of this name is in the conference",
            Cause::NotPublished => {
                "the publisher publishes the track, or the receiver names another one"
            }
            Cause::Muted => "who muted the track unmutes it",
            Cause::PublisherNotSignedIn => {
                "the publisher's program says hello to the switch's media address: check that UDP reaches it"
            }
            Cause::Fragmented => {
                "the publisher's program sends packets that fit the way to the switch, 1,200 bytes say"
            }
            Cause::PublisherSilent => {
                "the publisher's program sends media from the socket that says hello"
            }
            Cause::Policed => {
                "the publisher sends less, or publishes the track with a greater max_kbps"
            }
            Cause::NotRtp => {
                "the publisher's program sends RTP, or publishes the track with transport \"datagram\""
            }
            Cause::NotSubscribed => "the receiver subscribes to the track",
            Cause::ReceiverNotSignedIn => {
                "the receiver's program says hello to the switch's media address: check that UDP reaches it"
            }
            Cause::SwitchAway => {
                "an operator starts the switch, or connects it; the service then writes it by itself"
            }
            Cause::NotWritten => {
                "wait a second; if it stays, the service's log says what the switch refuses"
            }
            Cause::PortDown => "an operator brings the interface of the receiver's port up",
            Cause::TooLong => {
                "the publisher sends shorter packets, or an operator raises the MTU of the receiver's port"
            }
            Cause::NoRoom => {
                "an operator gives the receiver's port a faster interface, or the receiver takes lower qualities"
            }
            Cause::NoRoute => "an operator gives the switch's host a route to the receiver",
            Cause::DeviceRefused => {
                "an operator looks for what the switch's log says of the receiver's port"
            }
        }
    }

    /// Returns the causes that hide this one: while one of them holds, nobody can know whether this one does.
    #[must_use]
    pub fn hidden_by(self) -> &'static [Cause] {
        use Cause::{
            Fragmented, Muted, NoPublisher, NotPublished, NotSubscribed, NotWritten,
            PublisherNotSignedIn, PublisherSilent, ReceiverNotSignedIn, SwitchAway,
        };
        match self {
            Cause::NoPublisher | NotSubscribed | SwitchAway => &[],
            NotPublished => &[NoPublisher],
            Muted | PublisherNotSignedIn => &[NoPublisher, NotPublished],
            Fragmented => &[NoPublisher, NotPublished, PublisherNotSignedIn, SwitchAway],
            PublisherSilent => &[
                NoPublisher,
                NotPublished,
                PublisherNotSignedIn,
                Fragmented,
                SwitchAway,
            ],
            Cause::Policed => &[
                NoPublisher,
                NotPublished,
                PublisherNotSignedIn,
                Fragmented,
                PublisherSilent,
                SwitchAway,
            ],
            // This cause is only inferred, because the publisher sends and the receiver gets nothing. So every other
            // reason why the receiver gets nothing hides it.
            Cause::NotRtp => &[
                NoPublisher,
                NotPublished,
                Muted,
                PublisherNotSignedIn,
                Fragmented,
                PublisherSilent,
                NotSubscribed,
                ReceiverNotSignedIn,
                SwitchAway,
                NotWritten,
            ],
            ReceiverNotSignedIn => &[NotSubscribed],
            NotWritten => &[SwitchAway],
            Cause::PortDown
            | Cause::TooLong
            | Cause::NoRoom
            | Cause::NoRoute
            | Cause::DeviceRefused => &[NotSubscribed, ReceiverNotSignedIn, SwitchAway],
        }
    }
}
