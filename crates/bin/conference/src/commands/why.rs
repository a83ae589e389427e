//! `reprise why`: shows why a receiver does not get a publisher's track.

use std::time::{SystemTime, UNIX_EPOCH};

use conference_api::{Cause, LegTraffic, Name, Why};
use conference_client::{Api, Bearer};
use serde_json::{Value, json};

use crate::args::{self, Global};
use crate::failure::Failure;
use crate::output::{self, grouped};

/// The columns that are flush left: mark, and step.
const TEXT_COLUMNS: usize = 2;

pub async fn run(global: &Global, options: &args::Why) -> Result<(), Failure> {
    let conference = conference_of(options)?;
    let api = Api::new(&options.url, &options.token);
    let of = (&conference, &options.participant);
    let why = api.why(of, &options.track).await?;
    if global.json {
        output::json(&serde_json::to_value(&why).unwrap_or(Value::Null));
        return Ok(());
    }
    print(&conference, &why, now_ms());
    Ok(())
}

/// Returns the conference that the options name, or else the conference that the token is for.
fn conference_of(options: &args::Why) -> Result<Name, Failure> {
    if let Some(named) = &options.conference {
        return Ok(named.clone());
    }
    let claims = Bearer::claims(&options.token)?;
    claims
        .conference
        .ok_or_else(|| Failure::new("expected --conference NAME: the token is for all conferences"))
}

fn print(conference: &Name, why: &Why, now_ms: u64) {
    output::text(format!(
        "conference {conference}: {} of {} to {}",
        why.path.track, why.path.participant, why.participant
    ));
    output::table(&steps(why), TEXT_COLUMNS);
    output::text("");
    let titles = [
        "leg",
        "packets",
        "bytes",
        "packets/s",
        "kbit/s",
        "last packet",
    ];
    let rows = vec![
        titles.map(str::to_owned).to_vec(),
        counted(
            &format!("from {}", why.path.participant),
            &why.publisher,
            now_ms,
        ),
        counted(&format!("to {}", why.participant), &why.receiver, now_ms),
    ];
    output::table(&rows, 1);
    output::text("");
    if why.causes.is_empty() {
        output::text("Packets are forwarded.");
    }
    for cause in &why.causes {
        output::text(format!("{}: {}.", name(*cause), cause.next()));
    }
}

/// A line for each step from the publisher to the receiver, with a mark: the step is passed, it is not passed, or that
/// is not known.
fn steps(why: &Why) -> Vec<Vec<String>> {
    let steps = Cause::ALL.into_iter().map(|cause| {
        let is_hidden = cause.hidden_by().iter().any(|it| why.causes.contains(it));
        let mark = match (why.causes.contains(&cause), is_hidden) {
            (true, _) => "✗",
            (false, true) => "-",
            (false, false) => "✓",
        };
        vec![format!("  {mark}"), step(cause, why)]
    });
    steps.collect()
}

fn step(cause: Cause, why: &Why) -> String {
    let (publisher, track, receiver) = (&why.path.participant, &why.path.track, &why.participant);
    match cause {
        Cause::NoPublisher => format!("{publisher} is in the conference"),
        Cause::NotPublished => format!("{publisher} publishes {track}"),
        Cause::Muted => format!("{track} is not muted"),
        Cause::PublisherNotSignedIn => format!("{publisher}'s socket is signed in"),
        Cause::Fragmented => format!("{publisher}'s packets come whole"),
        Cause::PublisherSilent => format!("{publisher} sends media"),
        Cause::Policed => format!("{publisher} keeps within the rate"),
        Cause::NotRtp => format!("{publisher} sends RTP"),
        Cause::NotSubscribed => format!("{receiver} has subscribed"),
        Cause::ReceiverNotSignedIn => format!("{receiver}'s socket is signed in"),
        Cause::SwitchAway => "the switch is connected".to_owned(),
        Cause::NotWritten => "the switch has both sockets".to_owned(),
        Cause::PortDown => format!("the port to {receiver} is up"),
        Cause::TooLong => format!("the port to {receiver} takes packets of this length"),
        Cause::NoRoom => format!("the port to {receiver} has room"),
        Cause::NoRoute => format!("the port to {receiver} has a route"),
        Cause::DeviceRefused => format!("the port to {receiver} refuses nothing"),
    }
}

/// Returns the name of a cause: its name in JSON, with spaces in place of underscores.
fn name(cause: Cause) -> String {
    let named = json!(cause);
    named.as_str().unwrap_or_default().replace('_', " ")
}

fn counted(leg: &str, traffic: &LegTraffic, now_ms: u64) -> Vec<String> {
    vec![
        leg.to_owned(),
        grouped(traffic.packets),
        grouped(traffic.bytes),
        grouped(traffic.packets_per_s),
        grouped(traffic.kbps),
        traffic.last_packet_ms.map_or_else(
            || "none".to_owned(),
            |last_ms| format!("{} s ago", grouped(now_ms.saturating_sub(last_ms) / 1_000)),
        ),
    ]
}

fn now_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use conference_api::TrackPath;

    use super::*;

    #[test]
    fn a_step_is_passed_not_passed_or_not_known() {
        let named = |text: &str| Name::new(text).expect("a name");
        let why = Why {
            participant: named("bob"),
            path: TrackPath {
                participant: named("ann"),
                track: named("cam"),
            },
            causes: vec![Cause::PublisherNotSignedIn],
            next: Cause::PublisherNotSignedIn.next().to_owned(),
            publisher: LegTraffic::default(),
            receiver: LegTraffic::default(),
        };
        let steps: Vec<String> = steps(&why).iter().map(|it| it.join(" ")).collect();
        for expected in [
            "  ✓ ann publishes cam",
            "  ✗ ann's socket is signed in",
            "  - ann sends media",
            "  ✓ bob has subscribed",
        ] {
            assert!(
                steps.iter().any(|it| it == expected),
                "{expected}: {steps:?}"
            );
        }
        assert_eq!(name(Cause::PublisherNotSignedIn), "publisher not signed in");
        let never = counted("to bob", &LegTraffic::default(), 5_000);
        assert_eq!(never.last().map(String::as_str), Some("none"));
        let traffic = LegTraffic {
            last_packet_ms: Some(2_000),
            ..LegTraffic::default()
        };
        let ago = counted("to bob", &traffic, 5_000);
        assert_eq!(ago.last().map(String::as_str), Some("3 s ago"));
    }
}
