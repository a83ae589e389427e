//! Protects and unprotects packets that it reads from standard input, for tests with other implementations.
//!
//! The first line is `NUMBER KEY SALT`: the profile's number and the master key and salt. Each further line is
//! `protect rtp PACKET`, `protect rtcp PACKET`, `unprotect rtp PACKET` or `unprotect rtcp PACKET`; its answer is a line
//! with the new packet, or with `refused: ` and the reason. All bytes are hexadecimal digits.

use std::error::Error;
use std::io::{BufRead as _, Write as _, stdin, stdout};

use data_encoding::HEXLOWER;
use dataplane_srtp::{GROWTH_BYTES_MAX, MasterKey, Profile, Receiver, Sender};

fn main() -> Result<(), Box<dyn Error>> {
    let mut lines = stdin().lock().lines();
    let first = lines.next().ok_or("expected NUMBER KEY SALT")??;
    let [number, key, salt] = words(&first)?;
    let profile = Profile::of_number(number.parse()?).ok_or("no such profile")?;
    let (key, salt) = (
        HEXLOWER.decode(key.as_bytes())?,
        HEXLOWER.decode(salt.as_bytes())?,
    );
    let master = MasterKey::new(profile, &key, &salt)?;
    let (mut sender, mut receiver) = (Sender::new(&master), Receiver::new(&master));
    for line in lines {
        let line = line?;
        let [verb, kind, packet] = words(&line)?;
        let mut packet = HEXLOWER.decode(packet.as_bytes())?;
        let n_bytes = packet.len();
        if verb == "protect" {
            packet.resize(n_bytes + GROWTH_BYTES_MAX, 0);
        }
        let done = match (verb, kind) {
            ("protect", "rtp") => sender
                .protect_rtp(&mut packet, n_bytes)
                .map_err(|it| it.to_string()),
            ("protect", "rtcp") => sender
                .protect_rtcp(&mut packet, n_bytes)
                .map_err(|it| it.to_string()),
            ("unprotect", "rtp") => receiver
                .unprotect_rtp(&mut packet)
                .map_err(|it| it.to_string()),
            ("unprotect", "rtcp") => receiver
                .unprotect_rtcp(&mut packet)
                .map_err(|it| it.to_string()),
            _ => return Err(format!("{line}: no such request").into()),
        };
        match done {
            Ok(n_bytes) => writeln!(stdout(), "{}", HEXLOWER.encode(&packet[..n_bytes]))?,
            Err(why) => writeln!(stdout(), "refused: {why}")?,
        }
    }
    Ok(())
}

fn words(line: &str) -> Result<[&str; 3], Box<dyn Error>> {
    let words: Vec<&str> = line.split(' ').collect();
    words
        .try_into()
        .map_err(|_| format!("{line}: expected three words").into())
}
