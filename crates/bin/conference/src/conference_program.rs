//! The conference's P4 program. Its source is part of this executable.

use conference_service::driver::Program;
use p4_compiler::{Options, SourceProvider};

use crate::failure::Failure;

/// The P4 source files, each with its path and its text. The first file is the main program.
const SOURCES: &[(&str, &str)] = &[
    (
        "conference.p4",
        include_str!("../../../../p4/conference.p4"),
    ),
    (
        "lib/checksum.p4",
        include_str!("../../../../p4/lib/checksum.p4"),
    ),
    (
        "lib/conference_answer.p4",
        include_str!("../../../../p4/lib/conference_answer.p4"),
    ),
    (
        "lib/conference_arrival.p4",
        include_str!("../../../../p4/lib/conference_arrival.p4"),
    ),
    (
        "lib/conference_headers.p4",
        include_str!("../../../../p4/lib/conference_headers.p4"),
    ),
    (
        "lib/conference_parser.p4",
        include_str!("../../../../p4/lib/conference_parser.p4"),
    ),
    (
        "lib/conference_verdict.p4",
        include_str!("../../../../p4/lib/conference_verdict.p4"),
    ),
    (
        "lib/headers.p4",
        include_str!("../../../../p4/lib/headers.p4"),
    ),
    (
        "lib/receivers.p4",
        include_str!("../../../../p4/lib/receivers.p4"),
    ),
    (
        "lib/signed_in.p4",
        include_str!("../../../../p4/lib/signed_in.p4"),
    ),
];

struct Carried;

impl SourceProvider for Carried {
    fn load(&self, path: &str) -> Option<String> {
        let found = SOURCES.iter().find(|(name, _)| *name == path);
        found.map(|(_, text)| (*text).to_owned())
    }
}

/// Compiles the program. The compiler sees the paths of `SOURCES`, which are the same on every machine, so the cookie
/// (a hash of the compiled program) changes only if the program changes.
pub fn compile() -> Result<Program, Failure> {
    let (name, text) = SOURCES[0];
    let output = p4_compiler::compile(name, text, &Carried, &Options::default());
    let (Some(json), Some(p4info)) = (output.bmv2_json, output.p4info) else {
        let said: Vec<String> = output.diagnostics.iter().map(|it| it.render()).collect();
        return Err(Failure::new(format!(
            "p4/conference.p4: {}",
            said.join("\n")
        )));
    };
    let json = json.to_json_pretty()?.into_bytes();
    let cookie = fnv(&json);
    Ok(Program {
        p4info,
        json,
        cookie,
    })
}

/// FNV-1a, 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_that_the_service_carries_compiles_and_has_what_the_service_writes() {
        let program = compile().expect("it compiles");
        conference_service::rows::Tables::find(&program.p4info).expect("its tables");
        assert_eq!(compile().expect("it compiles").cookie, program.cookie);
    }
}
