//! Makes one HTTP request for a hook.

use std::time::Duration;

use bytes::Bytes;
use conference_api::Event;
use data_encoding::HEXLOWER;
use hmac::{Hmac, Mac};
use http::{Request, header};
use http_client::{Client, Limits};
use sha2::Sha256;

use super::Webhook;
use crate::core::now_ms;

const LIMITS: Limits = Limits {
    time: Duration::from_secs(10),
    // The service ignores the body of an answer, since the status alone decides.
    body_len: None,
};

pub(super) struct Poster {
    client: Client,
    url: String,
    secret: Vec<u8>,
}

impl Poster {
    pub(super) fn new(hook: &Webhook) -> Poster {
        Poster {
            client: Client::new(tls::http_client(hook.authorities.as_ref())),
            url: hook.url.clone(),
            secret: hook.secret.clone(),
        }
    }

    /// Sends an event once, signed with the hook's secret. It goes to the configured address only: no redirect is
    /// followed.
    ///
    /// # Errors
    /// The request cannot be made, nobody answers, or the answer has a status other than 200 to 299.
    pub(super) async fn post(&self, event: &Event) -> Result<(), String> {
        // An event has only texts, numbers and names, which JSON can express.
        let body = serde_json::to_string(event).unwrap_or_else(|_| unreachable!());
        let time = (now_ms() / 1_000).to_string();
        let request = Request::post(&self.url)
            .header(
                header::USER_AGENT,
                concat!("reprise/", env!("CARGO_PKG_VERSION")),
            )
            .header(header::CONTENT_TYPE, "application/json")
            .header("reprise-event-number", event.number)
            .header("reprise-signature", signature(&self.secret, &time, &body))
            .header("reprise-time", time)
            .body(Bytes::from(body));
        let request = request.map_err(|error| error.to_string())?;
        let answer = self.client.call(request, LIMITS).await;
        match answer.map_err(|error| error.to_string())?.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!(
                "expected a status from 200 to 299, found {}",
                status.as_u16()
            )),
        }
    }
}

/// Returns the HMAC-SHA256 of `TIME.BODY`, in hexadecimal digits.
fn signature(secret: &[u8], time: &str, body: &str) -> String {
    // Any key has a good length for HMAC.
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret).unwrap_or_else(|error| unreachable!("{error}"));
    mac.update(time.as_bytes());
    mac.update(b".");
    mac.update(body.as_bytes());
    HEXLOWER.encode(&mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_over_time_and_body() {
        // `printf '1700000000.{}' | openssl dgst -sha256 -hmac secret` prints this value.
        let expected = "b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163";
        assert_eq!(signature(b"secret", "1700000000", "{}"), expected);
        assert_ne!(signature(b"secret", "1700000001", "{}"), expected);
        assert_ne!(signature(b"secret", "1700000000", "{ }"), expected);
    }
}
