//! `reprise doctor`: reports what this machine can do as a switch, and what would make it faster.
//! It changes nothing itself.

mod interface;
mod machine;

use std::fmt;

use packet_io::probe::{self, InterfaceReport};
use serde_json::{Value, json};

use crate::args::Global;
use crate::failure::Failure;
use crate::output;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// Good, or of no consequence.
    Ok,
    /// Works, but could be faster or needs care.
    Advice,
    Unusable,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Level::Ok => "ok",
            Level::Advice => "advice",
            Level::Unusable => "unusable",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    what: &'static str,
    level: Level,
    found: String,
    advice: Option<String>,
}

impl Finding {
    fn ok(what: &'static str, found: impl Into<String>) -> Finding {
        Finding {
            what,
            level: Level::Ok,
            found: found.into(),
            advice: None,
        }
    }

    fn advice(what: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding {
            what,
            level: Level::Advice,
            found: found.into(),
            advice: Some(advice.into()),
        }
    }

    fn unusable(
        what: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Finding {
        Finding {
            level: Level::Unusable,
            ..Finding::advice(what, found, advice)
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "what": self.what,
            "level": self.level.to_string(),
            "found": self.found,
            "advice": self.advice,
        })
    }
}

/// Checks the machine and the named interfaces, or all Ethernet interfaces.
///
/// # Errors
/// A named interface cannot be a port.
pub fn run(global: &Global, names: &[String]) -> Result<(), Failure> {
    let machine = machine::Machine::read();
    let permissions = probe::permissions();
    let of_machine = [machine.findings(), machine::of_permissions(&permissions)].concat();
    let mut interfaces = Vec::new();
    for report in reports(names)? {
        let findings = interface::findings(&report, &permissions);
        interfaces.push((report.name, findings));
    }
    if !global.json {
        print("machine", &of_machine);
        for (name, findings) in &interfaces {
            output::text("");
            print(&format!("interface {name}"), findings);
        }
    }
    let unusable = interfaces
        .iter()
        .find_map(|(name, findings)| unusable(name, findings));
    let document = to_json(&of_machine, &interfaces);
    match unusable.filter(|_| !names.is_empty()) {
        Some(message) => return Err(Failure::new(message).with(document)),
        None if global.json => output::json(&document),
        None => {}
    }
    Ok(())
}

fn reports(names: &[String]) -> Result<Vec<InterfaceReport>, Failure> {
    let look =
        |name: &String| probe::interface(name).map_err(|error| Failure::new(error.to_string()));
    if !names.is_empty() {
        return names.iter().map(look).collect();
    }
    let all = probe::interface_names()
        .map_err(|error| Failure::new(format!("cannot list the interfaces: {error}")))?;
    // An interface that disappears between the two calls is left out.
    let reports = all.iter().filter_map(|name| probe::interface(name).ok());
    Ok(reports
        .filter(|report| report.is_ethernet && report.name != "lo")
        .collect())
}

fn unusable(name: &str, findings: &[Finding]) -> Option<String> {
    let finding = findings
        .iter()
        .find(|finding| finding.level == Level::Unusable)?;
    let advice = finding.advice.as_deref().unwrap_or_default();
    let Finding { what, found, .. } = finding;
    Some(format!(
        "interface \"{name}\" cannot be a port: {what}: {found}: {advice}"
    ))
}

fn to_json(machine: &[Finding], interfaces: &[(String, Vec<Finding>)]) -> Value {
    let list = |findings: &[Finding]| findings.iter().map(Finding::to_json).collect::<Vec<_>>();
    let interface = |(name, findings): &(String, Vec<Finding>)| json!({"interface": name, "findings": list(findings)});
    json!({
        "machine": list(machine),
        "interfaces": interfaces.iter().map(interface).collect::<Vec<_>>(),
    })
}

fn print(title: &str, findings: &[Finding]) {
    let width = |of: fn(&Finding) -> usize| findings.iter().map(of).max().unwrap_or(0);
    let what = width(|finding| finding.what.chars().count());
    output::text(title);
    for finding in findings {
        let Finding { level, found, .. } = finding;
        output::text(format!("  {level:<8}  {:<what$}  {found}", finding.what));
        if let Some(advice) = &finding.advice {
            output::text(format!("  {:8}  {:what$}  -> {advice}", "", ""));
        }
    }
}
