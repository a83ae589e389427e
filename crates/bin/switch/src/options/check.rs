//! Checks options against each other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use dataplane::limits;
use stream_socket::Address;

use super::{GenerateOption, GrpcAccess, Options, PortOption, PortSource};
use crate::engine::EngineOption;
use crate::event_loop::AfterReplay;
use crate::program::LoadedProgram;

/// A well-formed command line whose options contradict each other.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

impl Options {
    /// Checks options against each other.
    pub(crate) fn check(&self) -> Result<(), UsageError> {
        let fail = |message: String| Err(UsageError(message));
        let mut ids = BTreeMap::new();
        let mut interfaces = BTreeMap::new();
        for port in &self.ports {
            if let Some(other) = ids.insert(port.id, port) {
                return fail(format!(
                    "port {} is given twice: {other} and {port}",
                    port.id
                ));
            }
            if self.cpu_port() == Some(port.id) {
                return fail(format!(
                    "port {port} has the number of the CPU port: choose another, or move the CPU port with --cpu-port"
                ));
            }
            let device = match &port.source {
                PortSource::Interface(interface) | PortSource::Xdp { interface, .. } => {
                    format!("interface \"{interface}\"")
                }
                // With UDP port 0 the kernel chooses a free port, each time another one.
                PortSource::Udp(address) if address.port() != 0 => format!("address {address}"),
                PortSource::Udp(_) | PortSource::Capture { .. } => continue,
            };
            if let Some(other) = interfaces.insert(device.clone(), port) {
                return fail(format!("{device} is given twice: {other} and {port}"));
            }
        }
        if self.cpu_port > limits::PORT_ID_MAX {
            let (max, found) = (limits::PORT_ID_MAX, self.cpu_port);
            return fail(format!("--cpu-port: expected 0 to {max}, found {found}"));
        }
        let is_json = |path: &PathBuf| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        };
        if self.p4info.is_some() && !self.program.as_ref().is_some_and(is_json) {
            return fail("--p4info: expected a .json program beside it, found none".to_owned());
        }
        if self.program.is_none() && self.entries.is_some() {
            return fail("--entries: expected a program to apply them to, found none".to_owned());
        }
        // Scripts start BMv2 without ports, and add them later or never.
        if self.ports.is_empty() && self.grpc_address().is_none() && self.bmv2.is_none() {
            return fail("expected a port (-i 1@veth1) or P4Runtime (--grpc), found neither: there is nothing to do".to_owned());
        }
        if self.optimise.is_some() && self.engine == EngineOption::Interpreter {
            return fail("--optimise: expected --engine native, found interpreter: it has nothing to optimise".to_owned());
        }
        self.check_kernel_engine()?;
        self.check_grpc_access()?;
        self.check_sockets()?;
        self.check_takeover()?;
        self.check_generators()?;
        self.check_workers()?;
        self.check_addresses()?;
        self.check_outputs()
    }

    /// The kernel engine needs ports through XDP.
    fn check_kernel_engine(&self) -> Result<(), UsageError> {
        if self.engine != EngineOption::Kernel {
            return match self.keep_forwarding {
                Some(_) => Err(UsageError(
                    "--keep-forwarding: expected --engine kernel: nothing else goes on without the switch"
                        .to_owned(),
                )),
                None => Ok(()),
            };
        }
        let is_xdp = |port: &PortOption| matches!(port.source, PortSource::Xdp { .. });
        let problem = if !self.ports.iter().any(is_xdp) {
            "expected a port through XDP (-i 1@afxdp:veth1), found none".to_owned()
        } else if self.workers > 1 {
            format!(
                "expected one worker, found {}: in the kernel frames are forwarded on the processors that they come to",
                self.workers
            )
        } else {
            return Ok(());
        };
        Err(UsageError(format!("--engine kernel: {problem}")))
    }

    /// Refuses to serve other machines unless that was clearly intended.
    fn check_grpc_access(&self) -> Result<(), UsageError> {
        let GrpcAccess {
            tls_cert, insecure, ..
        } = &self.grpc_access;
        let Some(address) = self.grpc_address() else {
            return match tls_cert {
                Some(_) => Err(UsageError(
                    "--tls-cert: expected an address of P4Runtime (--grpc), found none".to_owned(),
                )),
                None => Ok(()),
            };
        };
        if !address.is_beyond_this_machine() || *insecure || tls_cert.is_some() {
            return Ok(());
        }
        Err(UsageError(format!(
            "--grpc {address}: expected TLS for an address that others than this machine reach, found none: give --tls-cert and --tls-key, and --tls-client-ca, so that only your controllers rule the switch; or an address like 127.0.0.1:9559; or --insecure to let whoever reaches the address rule the switch"
        )))
    }

    fn check_sockets(&self) -> Result<(), UsageError> {
        let grpc = self.grpc_address();
        let grpc = grpc.as_ref().filter(|it| matches!(it, Address::Unix(_)));
        let thrift = self.thrift_socket.clone().map(Address::Unix);
        if self.socket_mode.is_some() && grpc.is_none() && thrift.is_none() {
            return Err(UsageError(
                "--socket-mode: expected a Unix socket (--grpc unix:PATH, --thrift-socket PATH), found none"
                    .to_owned(),
            ));
        }
        match thrift {
            Some(thrift) if grpc == Some(&thrift) => Err(UsageError(format!(
                "--thrift-socket: {thrift} is where P4Runtime is served (--grpc): name another file"
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses `--takeover-socket` with ports whose sockets cannot pass to another process, and with packet generators,
    /// which would begin anew in the other process.
    fn check_takeover(&self) -> Result<(), UsageError> {
        let Some(path) = &self.takeover_socket else {
            return Ok(());
        };
        let fail = |message: String| Err(UsageError(format!("--takeover-socket: {message}")));
        for port in &self.ports {
            match &port.source {
                PortSource::Interface(_) | PortSource::Udp(_) => {}
                PortSource::Xdp { .. } => {
                    return fail(format!(
                        "expected ports of AF_PACKET (1@veth1) or UDP, found {port}: the rings of AF_XDP stay with the process that made them; with --engine kernel, --keep-forwarding lets a new switch take over"
                    ));
                }
                PortSource::Capture { .. } => {
                    return fail(format!(
                        "expected ports of AF_PACKET (1@veth1) or UDP, found {port}: a capture is read by one process"
                    ));
                }
            }
        }
        if let Some(generator) = self.generate.first() {
            return fail(format!(
                "expected no packet generator, found --generate {}: it would begin anew",
                generator.text
            ));
        }
        let others = [self.grpc_address(), self.thrift_address()];
        if others
            .into_iter()
            .flatten()
            .any(|it| it == Address::Unix(path.clone()))
        {
            return fail(format!(
                "{} is where another service is served: name another file",
                path.display()
            ));
        }
        Ok(())
    }

    /// A generator that waits for a command needs P4Runtime to start it. A generator beside a replay must end, so that
    /// the replay can end too.
    fn check_generators(&self) -> Result<(), UsageError> {
        for GenerateOption {
            text,
            count,
            starts_now,
            ..
        } in &self.generate
        {
            if !starts_now && self.grpc_address().is_none() {
                return Err(UsageError(format!(
                    "--generate {text}: expected P4Runtime (--grpc) to start it over, found none; or leave start=command out"
                )));
            }
            if count.is_none() && self.after_replay() == AfterReplay::End {
                return Err(UsageError(format!(
                    "--generate {text}: expected count=N, since the switch ends with its captures, found none"
                )));
            }
        }
        Ok(())
    }

    /// Refuses several workers where there is one capture, generator or trace for all of them, or a rate, which each
    /// worker would apply on its own.
    fn check_workers(&self) -> Result<(), UsageError> {
        let is_capture = |port: &&PortOption| matches!(port.source, PortSource::Capture { .. });
        let capture = self.ports.iter().find(is_capture);
        let single = [
            (capture.map(ToString::to_string), "a capture"),
            (
                (self.generate.first()).map(|it| format!("--generate {}", it.text)),
                "a generator",
            ),
            (self.trace.then(|| "--trace".to_owned()), "a trace"),
            (
                self.trace_to.as_ref().map(|_| "--trace-to".to_owned()),
                "a trace",
            ),
            (
                self.queues.egress_rate.map(|_| "--egress-rate".to_owned()),
                "a rate",
            ),
            (
                (self.queues.recirculation_rate).map(|_| "--recirculation-rate".to_owned()),
                "a rate",
            ),
        ];
        for (given, what) in single {
            if let Some(given) = given.filter(|_| self.workers > 1) {
                let found = self.workers;
                return Err(UsageError(format!(
                    "{given}: expected one worker for {what}, found --workers {found}"
                )));
            }
        }
        Ok(())
    }

    /// Checks that each server has an address of its own. TCP port 0 is no conflict, since the kernel then chooses a
    /// free port.
    fn check_addresses(&self) -> Result<(), UsageError> {
        let (Some(Address::Ip(grpc)), Some(metrics)) = (self.grpc_address(), self.metrics) else {
            return Ok(());
        };
        // An IPv6 wildcard address also covers all IPv4 addresses.
        let covers = |all: IpAddr, one: IpAddr| {
            all == one || (all.is_unspecified() && (all.is_ipv6() || one.is_ipv4()))
        };
        let (a, b) = (grpc.ip(), metrics.ip());
        let overlap = covers(a, b) || covers(b, a);
        if grpc.port() == 0 || grpc.port() != metrics.port() || !overlap {
            return Ok(());
        }
        Err(UsageError(format!(
            "--metrics: {metrics} is where P4Runtime is served (--grpc, {grpc}): choose another port"
        )))
    }

    /// Refuses a file with two writers, or with a reader and a writer.
    fn check_outputs(&self) -> Result<(), UsageError> {
        let captures = || {
            self.ports.iter().filter_map(|port| match &port.source {
                PortSource::Capture { input, output } => Some((input, output)),
                _ => None,
            })
        };
        let name = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let inputs = captures().filter_map(|(input, _)| input.as_deref());
        let generated = self.generate.iter().map(|generator| &*generator.file);
        let mut taken: BTreeSet<PathBuf> = inputs.chain(generated).map(name).collect();
        let outputs = captures().filter_map(|(_, output)| output.as_deref());
        for output in outputs.chain(self.trace_to.as_deref()) {
            if !taken.insert(name(output)) {
                return Err(UsageError(format!(
                    "file {} is to be written, but the command line names it twice: name another file",
                    output.display()
                )));
            }
        }
        Ok(())
    }

    /// Checks that there is a P4Info if there are entries: entries need its names and numbers.
    pub(crate) fn check_entries(&self, program: Option<&LoadedProgram>) -> Result<(), UsageError> {
        let has_p4info = program.is_some_and(|program| program.p4info.is_some());
        if self.entries.is_none() || has_p4info {
            return Ok(());
        }
        Err(UsageError(
            "--entries: expected the program's P4Info (--p4info FILE, or a .p4 program), found none"
                .to_owned(),
        ))
    }
}
