//! Examples at the end of a command's help.

use crate::p4rt;

pub(super) const EXAMPLES: &str = "\
A conference by hand, on a switch that runs with `reprise-switch -i 1@veth1`:

  reprise pipeline set p4/sfu.p4
  reprise address set --port 1 --ip 10.0.1.100 --mac 02:00:00:00:01:64
  reprise group add --group 4 --ip 10.0.1.4
  reprise viewer add --group 4 --ip 10.0.1.5
  reprise viewer add --group 4 --ip 10.0.1.6 --mac 02:00:00:00:00:06
  reprise show --watch

The same from a file, as often as you like:

  reprise apply conference.yaml --dry-run
  reprise apply conference.yaml

Exit code 0: done; 1: refused or failed, with one line on standard error; 2: not a command.";

pub(super) const APPLY_EXAMPLES: &str = "\
conference.yaml:

  sfu: {port: 1, ip: 10.0.1.100, mac: '02:00:00:00:01:64'}
  groups:
    - group: 4
      ip: 10.0.1.4              # presenter; mac: and udp_port: may be left out
      viewers:                  # copies leave in this order
        - {ip: 10.0.1.5}        # its MAC is looked up by ARP
        - {ip: 10.0.1.6, mac: '02:00:00:00:00:06', udp_port: 6000}

Examples:
  reprise apply conference.yaml
  reprise apply conference.yaml --dry-run --json
  reprise export -o conference.yaml      # the way back";

pub(super) const ENTRIES_EXAMPLES: &str = "\
s1-runtime.json, as in p4lang/tutorials:

  {
    \"target\": \"bmv2\",
    \"p4info\": \"build/basic.p4info.txtpb\",       from this file's folder, or the current one
    \"bmv2_json\": \"build/basic.json\",
    \"table_entries\": [
      {\"table\": \"MyIngress.ipv4_lpm\", \"default_action\": true,
       \"action_name\": \"MyIngress.drop\", \"action_params\": {}},
      {\"table\": \"MyIngress.ipv4_lpm\", \"match\": {\"hdr.ipv4.dstAddr\": [\"10.0.1.1\", 32]},
       \"action_name\": \"MyIngress.ipv4_forward\",
       \"action_params\": {\"dstAddr\": \"08:00:00:00:01:11\", \"port\": 1}}],
    \"multicast_group_entries\": [
      {\"multicast_group_id\": 1, \"replicas\": [{\"egress_port\": 1, \"instance\": 1}]}],
    \"clone_session_entries\": [
      {\"clone_session_id\": 5, \"replicas\": [{\"egress_port\": 2, \"instance\": 1}]}]
  }

Matches: exact VALUE, lpm [VALUE, PREFIX], ternary [VALUE, MASK], range [LOW, HIGH], the last two with
\"priority\". Values: numbers, \"0x1f\", Ethernet, IPv4 and IPv6 addresses. Names may leave out what
comes before their last dots.

Examples:
  reprise entries apply s1-runtime.json --pipeline
  reprise entries apply s1-runtime.json --dry-run --json
  reprise entries apply s1-runtime.json --replace     # and nothing else";

pub(super) const P4RT_EXAMPLES: &str = "\
Examples:
  reprise p4rt                                # a prompt; Tab completes names from the P4Info
  reprise p4rt -c 'table list'
  reprise p4rt -c 'dump' > state.p4rt         # what a controller would write for the same state
  reprise p4rt state.p4rt                     # and back
  reprise p4rt --json -c 'table list routes' | jq '.entities[].match'
  reprise p4rt --switch 10.0.0.7:50051 --device-id 0 -c 'watch packets count=1 time=5s'

Exit code 0: done; 1: a command was refused or failed, with its line; 2: not a command line.
docs/p4rt.md has a tour and the shapes of --json.";

pub(super) const EXPORT_EXAMPLES: &str = "\
Examples:
  reprise export -o conference.yaml      # all groups and viewers, each with its MAC
  reprise export --format p4runtime -o entries.txtpb
  reprise export conference.yaml --program p4/sfu.p4 --format p4runtime -o entries.txtpb
  reprise-switch -i 1@veth1 --entries entries.txtpb p4/sfu.p4";

pub(super) const SHOW_EXAMPLES: &str = "\
Examples:
  reprise show                  # totals, and rates over one second
  reprise show --watch          # the same every second until interrupted
  reprise show --json | jq '.groups[] | {group, packets}'";

pub(super) const WATCH_EXAMPLES: &str = "\
Examples:
  reprise watch                 # a live table
  reprise watch --json | jq '.latencies[] | {of, id, p99_ns}'    # a line a second

Rates and \"mean now\" cover the last second. The quantiles of ports cover the time since the switch
started, those of streams the time since the program was set.";

pub(super) const COMPILE_EXAMPLES: &str = "\
Examples:
  reprise compile p4/sfu.p4 -o build
  reprise compile fabric.p4 -I include -DWITH_INT -Werror -o build
  reprise compile -E p4/sfu.p4 | less";

pub(super) const FMT_EXAMPLES: &str = "\
Examples:
  reprise fmt p4/*.p4
  reprise fmt --check p4/*.p4
  reprise fmt - < program.p4

A file that is not P4 stays as it is. The style has no options; docs/compiler.md describes it.";

pub(super) const CHECK_EXAMPLES: &str = "\
Examples:
  reprise check p4/*.p4
  reprise check --message-format json program.p4

Exit code 0: no error in any of them; 1: errors; 2: not a command.";

pub(super) const AOM_EXAMPLES: &str = "\
A switch, its configuration service, and a group of two members:

  reprise-switch -i 1@veth1 -i 2@veth2 -i 3@veth3 &
  reprise aom serve --program p4/aom_hm.p4 --listen 10.0.0.1:7443 --port 1 &
  reprise aom group add counter --address 239.1.0.1
  reprise aom member add counter m0 --ip 10.0.0.10 --mac 02:00:00:00:00:10 --port 2 -o m0.member
  reprise aom member add counter m1 --ip 10.0.0.11 --mac 02:00:00:00:00:11 --port 3 -o m1.member
  reprise aom group show

What a member does with its file, and what the service promises: docs/aom-control.md";

pub(super) const REFRESH_EXAMPLES: &str = "\
Examples:
  reprise viewer refresh
  reprise viewer refresh --every 60          # in the background, or as a service

Viewers that were added with --mac stay as they are. A viewer that does not answer, for which several
hosts answer, or that is on another port now, also stays as it is, with a message on standard error.";

pub(super) const DOCTOR_EXAMPLES: &str = "\
Examples:
  reprise doctor
  sudo reprise doctor eth1                   # as the user who will run the switch
  reprise doctor --service https://sfu.example.org --token TOKEN
  reprise doctor eth1 --json | jq '.interfaces[].findings[] | select(.level != \"ok\")'";

/// The largest number of characters in a line, so that the line fits the narrowest usual terminal.
const LINE_CHARS_MAX: usize = 78;

/// Returns `first` and `second` side by side, as two columns. Wraps the second column and indents its lines.
pub(super) fn of_two_columns(first: &str, width: usize, second: &str) -> String {
    let indent = width + 4;
    let mut lines = vec![String::new()];
    for word in second.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if indent + line.len() + word.len() < LINE_CHARS_MAX => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    let below = format!("\n{:indent$}", "");
    let line = format!("  {first:width$}  {}", lines.join(&below));
    line.trim_end().to_owned()
}

/// Returns the text at the end of the help of `reprise p4rt`: examples, and a list of the commands of its shell.
pub(super) fn p4rt_help() -> String {
    let width = p4rt::COMMANDS.iter().map(|it| it.words.len()).max();
    let width = width.unwrap_or(0);
    let lines = p4rt::COMMANDS.iter();
    let lines: Vec<String> = lines
        .map(|it| of_two_columns(it.words, width, it.args))
        .collect();
    format!(
        "{P4RT_EXAMPLES}\n\nCommands (`help COMMAND` says more):\n\n{}\n\n{}",
        lines.join("\n"),
        p4rt::NOTATION
    )
}
