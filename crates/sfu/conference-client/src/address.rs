//! The address of a service.

use http::Uri;

/// What is expected in the place of a text that is no service's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected http://HOST:PORT or https://HOST:PORT")]
pub struct NoAddress;

/// Checks that a text is a service's address, and returns it.
///
/// # Errors
/// It lacks the scheme or the host.
pub fn checked(text: &str) -> Result<String, NoAddress> {
    let url: Uri = text.parse().map_err(|_| NoAddress)?;
    let is_http = matches!(url.scheme_str(), Some("http" | "https"));
    let has_host = url.host().is_some_and(|host| !host.is_empty());
    if is_http && has_host {
        Ok(text.to_owned())
    } else {
        Err(NoAddress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_a_scheme_and_a_host() {
        for good in [
            "http://127.0.0.1:8080",
            "https://[::1]:8080/",
            "http://sfu.example",
        ] {
            assert_eq!(checked(good).as_deref(), Ok(good));
        }
        for bad in [
            "127.0.0.1:8080",
            "sfu.example",
            "ftp://a",
            "http://",
            "http://a b",
            "",
        ] {
            assert_eq!(checked(bad), Err(NoAddress), "{bad}");
        }
    }
}
