//! `reprise doctor --service`: checks, step by step, what is between this machine and a conference service. A step may
//! need what an earlier step has found. Changes nothing.

mod api;
mod media;
mod network;
mod reach;

use std::net::IpAddr;
use std::time::SystemTime;

use command_line::findings::{self, Finding};
use http_client::Client;
use serde_json::json;
use tls::Authorities;
use tokio::runtime::Runtime;

use crate::args::{DoctorOfService, Global};
use crate::failure::Failure;
use crate::output;
use api::Service;
use media::Media;
use reach::Target;

/// Checks a service and, if one is given, a token.
///
/// # Errors
/// The service cannot be used from here.
pub fn run(global: &Global, options: &DoctorOfService, runtime: &Runtime) -> Result<(), Failure> {
    let target = Target::of(&options.service)?;
    let authorities = options.ca.as_deref().map(Authorities::read).transpose()?;
    let service = Service {
        url: &target.url,
        token: options.token.as_deref().map(str::trim),
        client: Client::new(tls::http_client(authorities.as_ref())),
        runtime,
    };
    let mut findings = Vec::new();
    look(&target, authorities.as_ref(), &service, &mut findings);
    if !global.json {
        findings::print(&format!("service {}", target.url), &findings);
    }
    let document = json!({ "service": target.url, "findings": findings::to_json(&findings) });
    match findings::unusable(&findings) {
        Some(finding) => {
            let line = format!("{} cannot be used from here: {finding}", target.url);
            Err(Failure::new(line).with(document))
        }
        None => {
            if global.json {
                output::json(&document);
            }
            Ok(())
        }
    }
}

/// Checks one step after the other. Stops if a step has not found what the next step needs.
fn look(
    target: &Target,
    authorities: Option<&Authorities>,
    service: &Service<'_>,
    findings: &mut Vec<Finding>,
) {
    let Some(stream) = reach::connect(target, findings) else {
        return;
    };
    let address = stream.peer_addr().map(|it| it.ip());
    if target.is_https && !reach::handshake(stream, target, authorities, findings) {
        return;
    }
    let Some(clock_ahead_s) = service.look(findings) else {
        return;
    };
    let media = match service.token {
        Some(token) if service.look_at_token(token, now_s() + clock_ahead_s, findings) => {
            media::look(service, token, findings)
        }
        Some(_) => Media::default(),
        None => {
            let found = "not looked at: that needs a participant's token";
            let advice = "--token TOKEN, or REPRISE_TOKEN";
            findings.push(Finding::advice("token", found, advice));
            Media::default()
        }
    };
    let to: Vec<IpAddr> = if media.addresses.is_empty() {
        address.into_iter().collect()
    } else {
        media.addresses.iter().map(|it| it.ip()).collect()
    };
    network::look(&to, media.has_answered, findings);
}

/// Seconds since 1970, by this machine's clock.
fn now_s() -> i64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_1970.map_or(0, |it| i64::try_from(it.as_secs()).unwrap_or(i64::MAX))
}

/// Formats a duration for people, in its largest unit or its two largest units.
fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, _, _) if days >= 10 => format!("{days} days"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units() {
        for (seconds, expected) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (3_599, "59 min"),
            (3_600 * 11 + 120, "11 h 2 min"),
            (86_400 * 3 + 3_600, "3 d 1 h"),
            (86_400 * 40, "40 days"),
        ] {
            assert_eq!(duration(seconds), expected);
        }
    }
}
