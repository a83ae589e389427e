//! Checks the service over HTTP: whether it is a conference service, whether it is ready, how far its clock differs
//! from this machine's, and whether it accepts a token.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use command_line::findings::Finding;
use conference_api::{Claims, Conference, Name, Problem};
use data_encoding::BASE64URL_NOPAD;
use http::{Method, Request, header, request};
use http_client::{Client, Limits};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Runtime;

use super::duration;

const LIMITS: Limits = Limits {
    time: Duration::from_secs(10),
    body_len: Some(10 << 20),
};
/// The clocks may seem to differ by up to this many seconds even if both are right: the answer takes time to travel,
/// and the header has whole seconds only.
const CLOCK_MAX_S: i64 = 2;
/// Maximum number of characters that are shown of a text that the service sends.
const SHOWN_CHARS: usize = 200;

/// Sends requests to the service.
pub(super) struct Service<'a> {
    pub(super) url: &'a str,
    pub(super) token: Option<&'a str>,
    pub(super) client: Client,
    pub(super) runtime: &'a Runtime,
}

struct Answer {
    status: u16,
    body: Bytes,
    /// By how many seconds the service's clock is ahead of this machine's; `None` if the answer has no header with the
    /// time.
    clock_ahead_s: Option<i64>,
}

impl Answer {
    fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        text.trim().chars().take(SHOWN_CHARS).collect()
    }
}

impl Service<'_> {
    /// Checks whether a conference service answers. Returns by how many seconds the service's clock is ahead of this
    /// machine's.
    pub(super) fn look(&self, findings: &mut Vec<Finding>) -> Option<i64> {
        let what = "service";
        let health = match self.get("/healthz") {
            Ok(health) => health,
            Err(error) => {
                let advice = "another program on this port, or a proxy whose service is away";
                findings.push(Finding::unusable(what, error, advice));
                return None;
            }
        };
        if health.status != 200 || health.text() != "ok" {
            let found = format!("/healthz answers with status {}, not ok", health.status);
            let advice = "another program on this port, or a proxy that does not pass it on";
            findings.push(Finding::unusable(what, found, advice));
            return None;
        }
        findings.push(Finding::ok(what, "a conference service"));
        findings.push(self.readiness());
        let ahead_s = health.clock_ahead_s;
        findings.push(clock(ahead_s));
        Some(ahead_s.unwrap_or(0))
    }

    fn readiness(&self) -> Finding {
        let what = "ready";
        let advice = "who runs the service finds more in its log";
        match self.get("/readyz") {
            Ok(answer) if answer.status == 200 => Finding::ok(what, "store and switch are there"),
            Ok(answer) if answer.status == 503 => Finding::advice(what, answer.text(), advice),
            Ok(answer) => {
                let found = format!("unknown: /readyz answers with status {}", answer.status);
                Finding::advice(what, found, advice)
            }
            Err(error) => Finding::advice(what, error, advice),
        }
    }

    /// Checks whether the service accepts a token, and returns whether it does. `now_s` is the service's time, in
    /// seconds since 1970.
    pub(super) fn look_at_token(
        &self,
        token: &str,
        now_s: i64,
        findings: &mut Vec<Finding>,
    ) -> bool {
        let what = "token";
        let claims = match claims(token) {
            Ok(claims) => claims,
            Err(found) => {
                findings.push(Finding::unusable(
                    what,
                    found,
                    "copy the whole token: three parts with dots between them",
                ));
                return false;
            }
        };
        if let Some(finding) = out_of_time(&claims, now_s) {
            findings.push(finding);
            return false;
        }
        let path = match &claims.conference {
            Some(conference) => format!("/v1/conferences/{conference}"),
            None => "/v1/conferences".to_owned(),
        };
        let answer = match self.get(&path) {
            Ok(answer) => answer,
            Err(error) => {
                let advice = "try again, or look at the service's log";
                findings.push(Finding::unusable(what, error, advice));
                return false;
            }
        };
        if answer.status != 200 {
            findings.push(refused(&answer));
            return false;
        }
        let left_s = i64::try_from(claims.exp).unwrap_or(i64::MAX) - now_s;
        let left = duration(u64::try_from(left_s).unwrap_or(0));
        findings.push(Finding::ok(
            what,
            format!("{}, ends in {left}", bearer(&claims)),
        ));
        true
    }

    /// Reads a conference, as far as the token's bearer may see it.
    pub(super) fn conference(&self, name: &Name) -> Result<Conference, String> {
        self.content(self.get(&format!("/v1/conferences/{name}")))
    }

    /// Sends a PUT request with this body, and reads the answer.
    pub(super) fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, String> {
        // The bodies consist of texts, numbers and names, so writing them as JSON cannot fail.
        let body = serde_json::to_vec(body).unwrap_or_else(|error| unreachable!("{error}"));
        let request = self
            .request(Method::PUT, path)
            .header(header::CONTENT_TYPE, "application/json");
        self.content(self.answer_to(request, body))
    }

    fn get(&self, path: &str) -> Result<Answer, String> {
        self.answer_to(self.request(Method::GET, path), Vec::new())
    }

    fn request(&self, method: Method, path: &str) -> request::Builder {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url));
        match self.token {
            Some(token) => request.header(header::AUTHORIZATION, format!("Bearer {token}")),
            None => request,
        }
    }

    fn answer_to(&self, request: request::Builder, body: Vec<u8>) -> Result<Answer, String> {
        let request = request.body(body.into());
        let request = request.map_err(|error| error.to_string())?;
        let sent = SystemTime::now();
        let answer = self.runtime.block_on(self.client.call(request, LIMITS));
        let answer = answer.map_err(|error| error.to_string())?;
        let date = answer.headers().get(header::DATE);
        let date = date.and_then(|it| httpdate::parse_http_date(it.to_str().ok()?).ok());
        Ok(Answer {
            status: answer.status().as_u16(),
            clock_ahead_s: date.map(|date| ahead_s(date, sent, SystemTime::now())),
            body: answer.into_body(),
        })
    }

    fn content<T: DeserializeOwned>(&self, answer: Result<Answer, String>) -> Result<T, String> {
        let answer = answer?;
        if answer.status != 200 {
            return Err(problem(&answer));
        }
        serde_json::from_slice(&answer.body).map_err(|error| format!("{}: {error}", self.url))
    }
}

/// Returns by how many seconds another clock is ahead of ours. The other clock showed `date`, cut to whole seconds, at
/// some moment between our times `sent` and `received`.
fn ahead_s(date: SystemTime, sent: SystemTime, received: SystemTime) -> i64 {
    let seconds = |time: SystemTime| {
        let since_1970 = time.duration_since(SystemTime::UNIX_EPOCH);
        since_1970.map_or(0, |it| i64::try_from(it.as_secs()).unwrap_or(i64::MAX))
    };
    let (date, sent, received) = (seconds(date), seconds(sent), seconds(received));
    match date {
        early if early < sent => early - sent,
        late if late > received => late - received,
        _ => 0,
    }
}

fn clock(ahead_s: Option<i64>) -> Finding {
    let what = "clock";
    let Some(ahead_s) = ahead_s else {
        let advice = "a proxy takes the header Date away, and nothing else has the service's time";
        return Finding::advice(what, "unknown", advice);
    };
    if ahead_s.abs() <= CLOCK_MAX_S {
        return Finding::ok(what, "as the service's");
    }
    let (side, by) = if ahead_s > 0 {
        ("ahead of", ahead_s)
    } else {
        ("behind", -ahead_s)
    };
    let by = duration(by.unsigned_abs());
    Finding::advice(
        what,
        format!("the service's is {by} {side} this machine's"),
        "tokens begin and end by the service's clock: let both follow a time server (timedatectl set-ntp true)",
    )
}

/// Decodes the claims of a token, without a check of its signature.
pub(super) fn claims(token: &str) -> Result<Claims, String> {
    let parts: Vec<&str> = token.trim().split('.').collect();
    let [_, claims, _] = parts[..] else {
        return Err(format!(
            "expected three parts with dots between them, found {}",
            parts.len()
        ));
    };
    let json = BASE64URL_NOPAD.decode(claims.as_bytes());
    let json = json.map_err(|_| "expected base64url between its dots".to_owned())?;
    serde_json::from_slice(&json)
        .map_err(|error| format!("expected the claims of a token of this service: {error}"))
}

fn out_of_time(claims: &Claims, now_s: i64) -> Option<Finding> {
    let now_s = u64::try_from(now_s).unwrap_or(0);
    let advice = "get a new one from who gave you this";
    if claims.exp <= now_s {
        let found = format!(
            "{}, ended {} ago by the service's clock",
            bearer(claims),
            duration(now_s - claims.exp)
        );
        return Some(Finding::unusable("token", found, advice));
    }
    let nbf = claims.nbf.filter(|nbf| *nbf > now_s)?;
    let found = format!(
        "{}, begins in {} by the service's clock",
        bearer(claims),
        duration(nbf - now_s)
    );
    Some(Finding::unusable("token", found, "wait, or get a new one"))
}

fn bearer(claims: &Claims) -> String {
    let kind = if claims.grants.administer {
        "an administrator"
    } else {
        "a participant"
    };
    let name = claims.sub.as_ref();
    let name = name.map_or_else(String::new, |name| format!(" ({name})"));
    match &claims.conference {
        Some(conference) => format!("of {kind}{name} of conference {conference}"),
        None => format!("of {kind}{name} of all conferences"),
    }
}

fn refused(answer: &Answer) -> Finding {
    let advice = match answer.status {
        401 => "the service has another secret or key, or the token was changed: get a new one",
        404 => "an administrator makes the conference (PUT /v1/conferences/NAME)",
        429 | 503 => "try again in a while",
        _ => "get a token that allows it",
    };
    Finding::unusable("token", problem(answer), advice)
}

fn problem(answer: &Answer) -> String {
    match serde_json::from_slice::<Problem>(&answer.body) {
        Ok(problem) => problem.detail,
        Err(_) => format!("the service answers with status {}", answer.status),
    }
}

#[cfg(test)]
mod tests {
    use command_line::findings::Level;

    use super::*;

    #[test]
    fn a_clock_differs_only_if_no_moment_between_two_explains_it() {
        let at = |ms: u64| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        assert_eq!(ahead_s(at(10_000), at(10_900), at(11_100)), 0);
        assert_eq!(ahead_s(at(11_000), at(10_900), at(11_100)), 0);
        assert_eq!(ahead_s(at(5_000), at(10_900), at(11_100)), -5);
        assert_eq!(ahead_s(at(71_000), at(10_900), at(11_100)), 60);
        assert_eq!(clock(Some(1)).level, Level::Ok);
        assert_eq!(clock(None).level, Level::Advice);
        let late = clock(Some(-3_600));
        assert_eq!(
            late.found,
            "the service's is 1 h 0 min behind this machine's"
        );
    }

    fn token(json: &str) -> String {
        format!("e30.{}.c2ln", BASE64URL_NOPAD.encode(json.as_bytes()))
    }

    #[test]
    fn a_token_is_read_and_judged_by_the_services_time() {
        let read = claims(&token(
            r#"{"exp":2000,"nbf":1000,"sub":"ann","conference":"weekly","grants":{}}"#,
        ));
        let read = read.expect("a token");
        assert_eq!(out_of_time(&read, 1_500), None);
        let ended = out_of_time(&read, 2_060).expect("it has ended");
        assert_eq!(
            ended.found,
            "of a participant (ann) of conference weekly, ended 1 min ago by the service's clock"
        );
        let early = out_of_time(&read, 940).expect("it has not begun");
        assert!(
            early
                .found
                .ends_with("begins in 1 min by the service's clock")
        );
        for (wrong, words) in [
            ("abc", "three parts"),
            ("a.!.c", "base64url"),
            (&token("{}"), "missing field `exp`"),
        ] {
            let found = claims(wrong).expect_err(wrong);
            assert!(found.contains(words), "{found}");
        }
    }
}
