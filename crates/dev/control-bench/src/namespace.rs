//! Starts the program again within a new network namespace.

use std::io::Write as _;
use std::process::{Command, ExitCode};

use clap::Parser;
use testkit::namespace::{ip, veth_pair};

use crate::{Result, process};

/// The environment variable that is set if the program already runs within the namespaces.
const INSIDE: &str = "REPRISE_CONTROL_BENCH_NAMESPACE";

/// The veth pairs. The first end sends or receives frames, the second end belongs to the switch.
pub const PAIRS: [(&str, &str); 2] = [("sends", "port1"), ("takes", "port2")];

/// The main function of a program that starts switches. If the program was started under the switch's name, this
/// function runs the switch. If the program was started under its own name, this function runs `work` in new namespaces
/// and prints the result.
pub fn main<O: Parser>(program: &str, work: impl FnOnce(&O) -> Result<String>) -> ExitCode {
    if let Some(code) = process::as_switch() {
        return code;
    }
    let options = O::parse();
    let done = enter().and_then(|entered| match entered {
        Some(code) => Ok(code),
        None => {
            let text = work(&options)?;
            writeln!(std::io::stdout(), "{text}")?;
            Ok(ExitCode::SUCCESS)
        }
    });
    done.unwrap_or_else(|error| {
        // There is no other place to report an error, so errors are ignored.
        let _ = writeln!(std::io::stderr(), "{program}: {error}");
        ExitCode::FAILURE
    })
}

/// Starts the program again in new user and network namespaces, and returns its exit code. If this process already runs
/// within them, makes the veth pairs and returns `None`.
///
/// # Errors
/// The machine lacks util-linux.
fn enter() -> Result<Option<ExitCode>> {
    if std::env::var_os(INSIDE).is_some() {
        set_up();
        return Ok(None);
    }
    let status = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--"])
        // A thousand connections need more descriptors than the usual limit, in the clients and in the switch.
        .args(["sh", "-c", "ulimit -n $(ulimit -Hn); exec \"$0\" \"$@\""])
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .status()
        .map_err(|error| format!("unshare, of util-linux: {error}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(Some(ExitCode::from(code.unwrap_or(1))))
}

fn set_up() {
    ip("link set lo up");
    for (one, other) in PAIRS {
        veth_pair(one, other);
    }
}
