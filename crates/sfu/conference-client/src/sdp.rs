//! Session descriptions (RFC 8866): the port that a program sends to, and a description for a program that receives.

/// Why a text does not describe exactly one stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSdp {
    /// No "m=" line.
    #[error("expected a session description with a line \"m=MEDIA PORT RTP/AVP ...\", found none")]
    NoMedia,
    /// Several "m=" lines.
    #[error(
        "expected a session description of one stream, found {0} lines \"m=\": write one file for each"
    )]
    Several(usize),
    /// The "m=" line has no valid port.
    #[error("expected a UDP port of 1 to 65534 in {0:?}")]
    Port(String),
}

/// Returns the port to which a program sends the stream that a description describes.
///
/// # Errors
/// The text does not describe one stream.
pub fn port_of(sdp: &str) -> Result<u16, BadSdp> {
    let media: Vec<&str> = lines(sdp).filter(|line| line.starts_with("m=")).collect();
    let [line] = media[..] else {
        return Err(match media.len() {
            0 => BadSdp::NoMedia,
            n => BadSdp::Several(n),
        });
    };
    let port = line
        .split_whitespace()
        .nth(1)
        .and_then(|port| port.parse().ok());
    // RTCP has the next port.
    port.filter(|port| (1..u16::MAX).contains(port))
        .ok_or_else(|| BadSdp::Port(line.to_owned()))
}

/// Rewrites the description for a program that receives the same stream on a port of this machine. The result names no
/// other machine, whatever the description says.
#[must_use]
pub fn for_receiver(sdp: &str, port: u16) -> String {
    const HERE: &str = "c=IN IP4 127.0.0.1";
    let mut text = String::new();
    let mut put = |line: &str| {
        text.push_str(line);
        text.push_str("\r\n");
    };
    let mut has_address = false;
    for line in lines(sdp) {
        if line.starts_with("c=") {
            has_address = true;
            put(HERE);
        } else if let Some(media) = line.strip_prefix("m=") {
            if !has_address {
                has_address = true;
                put(HERE);
            }
            let mut words: Vec<&str> = media.split_whitespace().collect();
            let port = port.to_string();
            if let Some(there) = words.get_mut(1) {
                *there = &port;
            }
            put(&format!("m={}", words.join(" ")));
        } else if !line.starts_with("a=rtcp:") && line != "a=rtcp-mux" {
            put(line);
        }
    }
    text
}

/// Splits a description into lines as players do: some players end a line at a carriage return alone, and skip leading
/// spaces. This function must find every line that a player would find.
fn lines(sdp: &str) -> impl Iterator<Item = &str> {
    let lines = sdp.split(['\r', '\n', '\0']).map(str::trim);
    lines.filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAMERA: &str = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=No Name\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=video 5006 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=rtcp-mux\r\n";

    #[test]
    fn a_description_says_where_its_program_sends_and_another_receives() {
        assert_eq!(port_of(CAMERA), Ok(5006));
        let here = for_receiver(
            &CAMERA.replace("c=IN IP4 127.0.0.1", "c=IN IP6 ff02::1"),
            7000,
        );
        assert_eq!(
            here,
            CAMERA.replace("5006", "7000").replace("a=rtcp-mux\r\n", "")
        );
    }

    #[test]
    fn what_describes_no_single_stream_is_refused() {
        assert_eq!(port_of("v=0"), Err(BadSdp::NoMedia));
        assert_eq!(
            port_of(&format!("{CAMERA}{CAMERA}")),
            Err(BadSdp::Several(2))
        );
        for port in ["0", "65535", "x"] {
            let bad = port_of(&CAMERA.replace("5006", port));
            assert!(matches!(bad, Err(BadSdp::Port(_))), "{port}");
        }
    }

    #[test]
    fn no_description_makes_a_receiver_listen_elsewhere() {
        for hidden in [
            "s=x\rm=video 9 RTP/AVP 96\rc=IN IP4 192.0.2.1",
            " m=video 9 RTP/AVP 96",
            "s=x\0m=video 9 RTP/AVP 96",
        ] {
            let text = CAMERA.replace("s=No Name", hidden);
            assert_eq!(port_of(&text), Err(BadSdp::Several(2)), "{hidden:?}");
            let here = for_receiver(&text, 7000);
            assert!(!here.contains("192.0.2.1"), "{here}");
            assert_eq!(here.matches("m=video 7000 ").count(), 2, "{here}");
        }
        let without = CAMERA.replace("c=IN IP4 127.0.0.1\r\n", "");
        let here = for_receiver(&without.replace("m=video 5006", "m=video\t9"), 7000);
        assert!(
            here.contains("c=IN IP4 127.0.0.1\r\nm=video 7000 RTP/AVP 96\r\n"),
            "{here}"
        );
    }
}
