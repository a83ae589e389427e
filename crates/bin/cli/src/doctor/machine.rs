//! Checks the machine: kernel, cores, their frequency and sleep states, limits, and this process's privileges.

use std::fs;
use std::thread;

use packet_io::limits::SOCKET_BUFFER_BYTES;
use packet_io::probe::Permissions;

use super::Finding;

/// Microseconds that a core may take to wake up. `doctor` advises against sleep states that take longer: in this time a
/// system call sends 64 frames.
const WAKE_UP_US_MAX: u64 = 50;

/// Kernel version since which XDP programs detach when the process ends (bpf links).
const KERNEL_OF_XDP_LINKS: (u32, u32) = (5, 9);

/// Kernel version since which one AF_XDP system call sends any number of frames. Older kernels send 32.
const KERNEL_OF_SEND_BUDGET: (u32, u32) = (6, 17);

/// Data that the system reports about itself; `None` if missing.
#[derive(Debug, Default)]
pub(super) struct Machine {
    kernel: Option<String>,
    n_cores: usize,
    governor: Option<String>,
    /// The first core's enabled sleep states, each with its exit latency in microseconds.
    idle_states: Vec<(String, u64)>,
    is_virtual: bool,
    huge_pages: Option<u64>,
    receive_buffer_max: Option<u64>,
    send_buffer_max: Option<u64>,
    bpf_jit: Option<u64>,
}

impl Machine {
    pub(super) fn read() -> Machine {
        let line = |path: &str| {
            let text = fs::read_to_string(path).ok()?;
            Some(text.trim().to_owned())
        };
        let number = |path: &str| line(path)?.parse().ok();
        let cpu = "/sys/devices/system/cpu/cpu0";
        let states = (0..).map_while(|state| {
            let of = |name: &str| line(&format!("{cpu}/cpuidle/state{state}/{name}"));
            Some((of("name")?, of("latency")?, of("disable")?))
        });
        let states = states.filter(|(_, _, is_disabled)| is_disabled == "0");
        let cpus = line("/proc/cpuinfo").unwrap_or_default();
        Machine {
            kernel: line("/proc/sys/kernel/osrelease"),
            n_cores: thread::available_parallelism().map_or(1, Into::into),
            governor: line(&format!("{cpu}/cpufreq/scaling_governor")),
            idle_states: states
                .filter_map(|(name, latency, _)| Some((name, latency.parse().ok()?)))
                .collect(),
            is_virtual: cpus.split_whitespace().any(|flag| flag == "hypervisor"),
            huge_pages: number("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"),
            receive_buffer_max: number("/proc/sys/net/core/rmem_max"),
            send_buffer_max: number("/proc/sys/net/core/wmem_max"),
            bpf_jit: number("/proc/sys/net/core/bpf_jit_enable"),
        }
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings = vec![self.kernel(), self.cores(), self.governor(), self.idle()];
        let buffers = [
            ("receive buffer", "rmem_max", self.receive_buffer_max),
            ("send buffer", "wmem_max", self.send_buffer_max),
        ];
        for (what, name, bytes) in buffers {
            findings.extend(bytes.map(|bytes| buffer(what, name, bytes)));
        }
        findings.extend(self.bpf_jit.map(|value| match value {
            0 => Finding::advice(
                "BPF compiler",
                "off",
                "XDP programs are interpreted: sysctl -w net.core.bpf_jit_enable=1",
            ),
            _ => Finding::ok("BPF compiler", "on"),
        }));
        findings.extend(self.huge_pages.map(|n_pages| {
            let found = format!("{n_pages} of 2 MiB; no port needs any");
            Finding::ok("huge pages", found)
        }));
        findings
    }

    fn kernel(&self) -> Finding {
        let Some(release) = &self.kernel else {
            return Finding::advice("kernel", "unknown", "/proc/sys/kernel/osrelease is missing");
        };
        let advice = match version(release) {
            Some(version) if version >= KERNEL_OF_SEND_BUDGET => {
                return Finding::ok("kernel", release);
            }
            Some(version) if version >= KERNEL_OF_XDP_LINKS => {
                "AF_XDP sends 32 frames a system call before Linux 6.17"
            }
            _ => "no AF_XDP ports before Linux 5.9",
        };
        Finding::advice("kernel", release, advice)
    }

    fn cores(&self) -> Finding {
        match self.n_cores {
            1 => Finding::advice(
                "cores",
                "1",
                "do not use --wait spin: it would take the only core from everything else",
            ),
            n => Finding::ok("cores", n.to_string()),
        }
    }

    fn governor(&self) -> Finding {
        match self.governor.as_deref() {
            None if self.is_virtual => {
                Finding::ok("frequency", "governed by the host of this virtual machine")
            }
            None => Finding::ok("frequency", "not governed by the kernel"),
            Some("performance") => Finding::ok("frequency", "governor performance"),
            Some(governor) => Finding::advice(
                "frequency",
                format!("governor {governor}"),
                "a sleeping switch wakes on a slow core: cpupower frequency-set -g performance",
            ),
        }
    }

    fn idle(&self) -> Finding {
        let deepest = self
            .idle_states
            .iter()
            .max_by_key(|(_, latency_us)| *latency_us);
        match deepest {
            None if self.is_virtual => {
                let found = "up to the host of this virtual machine";
                Finding::ok("core sleep", found)
            }
            None => Finding::ok("core sleep", "no states"),
            Some((name, latency_us)) => {
                let found = format!("{name}, {latency_us} us to wake");
                if *latency_us <= WAKE_UP_US_MAX {
                    return Finding::ok("core sleep", found);
                }
                let advice =
                    format!("--wait spin, or cpupower idle-set -D {WAKE_UP_US_MAX}, for latency");
                Finding::advice("core sleep", found, advice)
            }
        }
    }
}

fn buffer(what: &'static str, name: &str, bytes: u64) -> Finding {
    let wanted = u64::from(SOCKET_BUFFER_BYTES.unsigned_abs());
    let found = format!("{bytes} bytes at most without privilege");
    if bytes >= wanted {
        return Finding::ok(what, found);
    }
    let advice = format!("for UDP ports without privilege: sysctl -w net.core.{name}={wanted}");
    Finding::advice(what, found, advice)
}

pub(super) fn of_permissions(permissions: &Permissions) -> Vec<Finding> {
    let packet = match &permissions.packet_socket {
        Ok(()) => Finding::ok("AF_PACKET", "allowed"),
        Err(error) => Finding::advice(
            "AF_PACKET",
            error.to_string(),
            "CAP_NET_RAW is needed: root, \"unshare -Urn\", or a UDP port (PORT@udp:ADDRESS:PORT)",
        ),
    };
    let xdp = match (&permissions.xdp_socket, &permissions.xdp_program) {
        (Ok(()), Ok(())) => Finding::ok("AF_XDP", "allowed"),
        (Err(error), _) => Finding::advice(
            "AF_XDP",
            format!("no socket: {error}"),
            "CAP_NET_RAW is needed, and a kernel with CONFIG_XDP_SOCKETS",
        ),
        (_, Err(error)) => Finding::advice(
            "AF_XDP",
            format!("no program: {error}"),
            "CAP_BPF and CAP_NET_ADMIN are needed outside any user namespace: run as root",
        ),
    };
    vec![packet, xdp, Finding::ok("UDP", "allowed")]
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use command_line::findings::Level;

    fn found(machine: &Machine, what: &str) -> Finding {
        let findings = machine.findings();
        let finding = findings.into_iter().find(|finding| finding.what == what);
        finding.expect("it was looked at")
    }

    #[test]
    fn kernels_are_told_apart() {
        for (release, level) in [
            ("6.18.44-fc", Level::Ok),
            ("6.17", Level::Ok),
            ("6.1.0-13-amd64", Level::Advice),
            ("5.4.0", Level::Advice),
        ] {
            let machine = Machine {
                kernel: Some(release.to_owned()),
                ..Machine::default()
            };
            assert_eq!(found(&machine, "kernel").level, level, "{release}");
        }
        let old = Machine {
            kernel: Some("5.4.0".to_owned()),
            ..Machine::default()
        };
        let advice = found(&old, "kernel").advice.expect("advice");
        assert!(advice.contains("no AF_XDP"), "{advice}");
    }

    #[test]
    fn a_core_that_wakes_slowly_and_a_governor_that_saves_are_advised_against() {
        let machine = Machine {
            governor: Some("powersave".to_owned()),
            idle_states: vec![("C1".to_owned(), 2), ("C6".to_owned(), 133)],
            n_cores: 8,
            ..Machine::default()
        };
        assert_eq!(found(&machine, "frequency").level, Level::Advice);
        let sleep = found(&machine, "core sleep");
        assert_eq!(
            (sleep.level, sleep.found.as_str()),
            (Level::Advice, "C6, 133 us to wake")
        );
        assert_eq!(found(&machine, "cores").level, Level::Ok);
        let fine = Machine {
            governor: Some("performance".to_owned()),
            idle_states: vec![("C1".to_owned(), 2)],
            ..Machine::default()
        };
        assert_eq!(found(&fine, "frequency").level, Level::Ok);
        assert_eq!(found(&fine, "core sleep").level, Level::Ok);
    }

    #[test]
    fn small_buffers_are_named_with_the_setting() {
        let machine = Machine {
            receive_buffer_max: Some(212_992),
            send_buffer_max: Some(4_194_304),
            ..Machine::default()
        };
        let receive = found(&machine, "receive buffer");
        let advice = receive.advice.expect("advice");
        assert!(advice.contains("net.core.rmem_max=4194304"), "{advice}");
        assert_eq!(found(&machine, "send buffer").level, Level::Ok);
    }
}
