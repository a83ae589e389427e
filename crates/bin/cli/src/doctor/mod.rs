//! `reprise doctor`: reports what this machine can do as a switch, and what would make it faster.
//! It changes nothing itself.

mod interface;
mod machine;

use command_line::findings::{self, Finding, print};
use packet_io::probe::{self, InterfaceReport};
use serde_json::{Value, json};

use crate::args::Global;
use crate::failure::Failure;
use crate::output;

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
    let finding = findings::unusable(findings)?;
    Some(format!("interface \"{name}\" cannot be a port: {finding}"))
}

fn to_json(machine: &[Finding], interfaces: &[(String, Vec<Finding>)]) -> Value {
    let interface = |(name, findings): &(String, Vec<Finding>)| json!({"interface": name, "findings": findings::to_json(findings)});
    json!({
        "machine": findings::to_json(machine),
        "interfaces": interfaces.iter().map(interface).collect::<Vec<_>>(),
    })
}
