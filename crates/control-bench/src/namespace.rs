//! A network namespace of the program's own, made by starting it once more in one.

use std::io::Write as _;
use std::process::{Command, ExitCode};

use clap::Parser;

use crate::{Result, process};

/// Set in the program that was started in a namespace.
const INSIDE: &str = "REPRISE_CONTROL_BENCH_NAMESPACE";

/// Interfaces on which frames are sent and arrive, each beside the switch's.
pub const PAIRS: [(&str, &str); 2] = [("sends", "port1"), ("takes", "port2")];

/// The whole of a program that starts switches: it is the switch itself where it is started by that name. Else it does
/// its work in namespaces of its own and prints what came of it.
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
        // There is nobody to tell where this cannot be written.
        let _ = writeln!(std::io::stderr(), "{program}: {error}");
        ExitCode::FAILURE
    })
}

/// Runs the program in new user and network namespaces with its interfaces, and gives its exit code; none where
/// this process is the one inside.
///
/// # Errors
/// The machine allows no namespaces, or lacks iproute2 or util-linux.
fn enter() -> Result<Option<ExitCode>> {
    if std::env::var_os(INSIDE).is_some() {
        set_up()?;
        return Ok(None);
    }
    let status = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--"])
        // A thousand connections need more descriptors than the usual limit, at both ends.
        .args(["sh", "-c", "ulimit -n $(ulimit -Hn); exec \"$0\" \"$@\""])
        .arg(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .status()
        .map_err(|error| format!("unshare, of util-linux: {error}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(Some(ExitCode::from(code.unwrap_or(1))))
}

fn set_up() -> Result<()> {
    ip("link set lo up")?;
    // The kernel itself sends nothing on these interfaces.
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1")?;
    for (one, other) in PAIRS {
        ip(&format!("link add {one} type veth peer name {other}"))?;
        ip(&format!("link set {one} up"))?;
        ip(&format!("link set {other} up"))?;
    }
    Ok(())
}

fn ip(arguments: &str) -> Result<()> {
    let words = arguments.split_whitespace();
    let output = Command::new("ip")
        .args(words)
        .output()
        .map_err(|error| format!("ip, of iproute2: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(format!("ip {arguments}: {said}").into())
        }
    }
}
