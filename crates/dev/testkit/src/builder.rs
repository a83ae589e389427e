//! Builds small BMv2 JSON programs in Rust, and a switch that runs these programs.

use dataplane::{
    ControlError, ControlErrorKind, OwnedTransmit, PortId, Program, Switch, SwitchConfig,
};
use serde_json::{Value, json};

/// Returns a field as an operand. The field is a name like `"pkt.kind"`.
pub fn field(path: &str) -> Value {
    let (header, field) = path.rsplit_once('.').expect("header.field");
    json!({"type": "field", "value": [header, field]})
}

pub fn hex(number: u64) -> Value {
    json!({"type": "hexstr", "value": format!("{number:#x}")})
}

pub fn param(index: u32) -> Value {
    json!({"type": "runtime_data", "value": index})
}

/// Returns the expression `left op right`.
pub fn op(op: &str, left: Value, right: Value) -> Value {
    json!({"type": "expression", "value": {"op": op, "left": left, "right": right}})
}

pub fn prim(op: &str, parameters: &[Value]) -> Value {
    json!({"op": op, "parameters": parameters})
}

pub fn assign(to: &str, from: Value) -> Value {
    prim("assign", &[field(to), from])
}

pub fn output_to(port: u64) -> Value {
    assign("standard_metadata.egress_spec", hex(port))
}

pub fn mark_to_drop() -> Value {
    prim(
        "mark_to_drop",
        &[json!({"type": "header", "value": "standard_metadata"})],
    )
}

/// A program with a header `pkt`, metadata `m`, and v1model's standard metadata. The header has the fields kind (8
/// bits), left (8) and value (16), the metadata have the fields kept (16) and lost (16). Ingress and egress are empty.
#[derive(Clone)]
pub struct Builder {
    pub json: Value,
    next_id: u32,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            json: base(),
            next_id: 1,
        }
    }
}

impl Builder {
    fn id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    pub fn push(&mut self, list: &str, object: Value) {
        self.json[list].as_array_mut().expect("a list").push(object);
    }

    pub fn action(&mut self, name: &str, params: &[(&str, u32)], primitives: &[Value]) -> u32 {
        let id = self.id();
        let params: Vec<Value> = params
            .iter()
            .map(|(name, bits)| json!({"name": name, "bitwidth": bits}))
            .collect();
        let action =
            json!({"name": name, "id": id, "runtime_data": params, "primitives": primitives});
        self.push("actions", action);
        id
    }

    pub fn node(&mut self, pipeline: usize, list: &str, node: Value) {
        self.json["pipelines"][pipeline][list]
            .as_array_mut()
            .expect("a list")
            .push(node);
    }

    /// Makes a pipeline of one node, which runs primitives.
    pub fn run(&mut self, pipeline: usize, name: &str, primitives: &[Value]) {
        self.call(pipeline, name, None, primitives);
        self.start(pipeline, name);
    }

    /// Adds a node that runs primitives and continues at `next`.
    pub fn call(&mut self, pipeline: usize, name: &str, next: Option<&str>, primitives: &[Value]) {
        let action_id = self.action(&format!("act_{name}"), &[], primitives);
        let id = self.id();
        let call = json!({"name": name, "id": id, "action_id": action_id, "next_node": next});
        self.node(pipeline, "action_calls", call);
    }

    pub fn condition(
        &mut self,
        pipeline: usize,
        name: &str,
        expression: Value,
        yes: Option<&str>,
        no: Option<&str>,
    ) {
        let id = self.id();
        let node = json!({"name": name, "id": id, "expression": expression,
            "true_next": yes, "false_next": no});
        self.node(pipeline, "conditionals", node);
    }

    /// Adds a table with key fields. Every action continues at `next`.
    pub fn table(
        &mut self,
        pipeline: usize,
        name: &str,
        key: &[(&str, &str)],
        actions: &[(&str, u32)],
        next: Option<&str>,
    ) -> &mut Value {
        let id = self.id();
        let key: Vec<Value> = key
            .iter()
            .map(|(kind, path)| {
                let target = field(path)["value"].clone();
                json!({"match_type": kind, "name": path, "target": target, "mask": null})
            })
            .collect();
        let names: Vec<&str> = actions.iter().map(|(name, _)| *name).collect();
        let ids: Vec<u32> = actions.iter().map(|(_, id)| *id).collect();
        let next_tables: serde_json::Map<String, Value> = names
            .iter()
            .map(|name| ((*name).to_owned(), json!(next)))
            .collect();
        let table = json!({"name": name, "id": id, "key": key, "match_type": "exact",
            "type": "simple", "max_size": 64, "with_counters": true, "support_timeout": false,
            "direct_meters": null, "action_ids": ids, "actions": names,
            "base_default_next": next, "next_tables": next_tables});
        self.node(pipeline, "tables", table);
        let tables = self.json["pipelines"][pipeline]["tables"]
            .as_array_mut()
            .expect("a list");
        tables.last_mut().expect("the table")
    }

    pub fn start(&mut self, pipeline: usize, node: &str) {
        self.json["pipelines"][pipeline]["init_table"] = json!(node);
    }

    pub fn field_list(&mut self, id: u32, fields: &[&str]) {
        let elements: Vec<Value> = fields.iter().map(|path| field(path)).collect();
        self.push(
            "field_lists",
            json!({"id": id, "name": format!("list{id}"), "elements": elements}),
        );
    }

    pub fn program(&self) -> Program {
        Program::from_json_str(&self.json.to_string()).expect("the program loads")
    }

    /// Makes a switch with ports 0 to 7 that runs the program.
    pub fn switch(&self, config: SwitchConfig) -> Switch {
        let mut switch = Switch::new(config);
        (0..8).for_each(|port| switch.add_port(PortId(port)));
        switch.set_program(self.program());
        switch
    }
}

pub const INGRESS: usize = 0;
pub const EGRESS: usize = 1;

fn base() -> Value {
    let standard_metadata = [
        ("ingress_port", 9),
        ("egress_spec", 9),
        ("egress_port", 9),
        ("instance_type", 32),
        ("packet_length", 32),
        ("enq_timestamp", 32),
        ("enq_qdepth", 19),
        ("deq_timedelta", 32),
        ("deq_qdepth", 19),
        ("ingress_global_timestamp", 48),
        ("egress_global_timestamp", 48),
        ("mcast_grp", 16),
        ("egress_rid", 16),
        ("checksum_error", 1),
        ("parser_error", 32),
        ("priority", 3),
    ];
    let standard_metadata: Vec<Value> = standard_metadata
        .iter()
        .map(|(name, bits)| json!([name, bits, false]))
        .collect();
    let pipeline = |name: &str, id: u32| {
        json!({"name": name, "id": id, "init_table": null, "tables": [], "action_profiles": [],
            "conditionals": [], "action_calls": []})
    };
    json!({
        "header_types": [
            {"name": "pkt_t", "id": 0, "fields": [["kind", 8, false], ["left", 8, false], ["value", 16, false]]},
            {"name": "m_t", "id": 1, "fields": [["kept", 16, false], ["lost", 16, false]]},
            {"name": "standard_metadata_t", "id": 2, "fields": standard_metadata},
        ],
        "headers": [
            {"name": "pkt", "id": 0, "header_type": "pkt_t", "metadata": false},
            {"name": "m", "id": 1, "header_type": "m_t", "metadata": true},
            {"name": "standard_metadata", "id": 2, "header_type": "standard_metadata_t", "metadata": true},
        ],
        "header_stacks": [],
        "field_lists": [],
        "errors": [["NoError", 0], ["PacketTooShort", 1], ["NoMatch", 2], ["StackOutOfBounds", 3],
            ["HeaderTooShort", 4], ["ParserTimeout", 5], ["ParserInvalidArgument", 6]],
        "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": [
            {"name": "start", "id": 0, "parser_ops": [
                {"op": "extract", "parameters": [{"type": "regular", "value": "pkt"}]}],
             "transition_key": [],
             "transitions": [{"type": "default", "value": null, "mask": null, "next_state": null}]}]}],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["pkt"]}],
        "calculations": [], "checksums": [], "learn_lists": [], "actions": [],
        "register_arrays": [], "counter_arrays": [], "meter_arrays": [],
        "pipelines": [pipeline("ingress", 0), pipeline("egress", 1)],
        "__meta__": {"version": [2, 23]},
    })
}

/// Returns the default configuration with a change.
pub fn config_with(change: impl FnOnce(&mut SwitchConfig)) -> SwitchConfig {
    let mut config = SwitchConfig::default();
    change(&mut config);
    config
}

/// Sends a frame into the switch and returns everything that leaves at that time.
pub fn exchange(switch: &mut Switch, now: u64, port: u16, frame: &[u8]) -> Vec<OwnedTransmit> {
    switch.handle_frame(now, PortId(port), frame);
    drain(switch, now)
}

pub fn drain(switch: &mut Switch, now: u64) -> Vec<OwnedTransmit> {
    let mut next = || Some(switch.poll_transmit(now)?.to_owned());
    std::iter::from_fn(&mut next).collect()
}

/// Returns the error of a call that must be refused.
#[track_caller]
pub fn refusal<T: std::fmt::Debug>(result: Result<T, ControlError>) -> ControlErrorKind {
    result.expect_err("it is refused").kind
}

/// Returns port and bytes of each frame.
pub fn brief(transmits: &[OwnedTransmit]) -> Vec<(u16, Vec<u8>)> {
    transmits
        .iter()
        .map(|t| (t.port.0, t.frame.clone()))
        .collect()
}

/// Asserts that every packet is accounted for.
#[track_caller]
pub fn assert_accounted(switch: &Switch) {
    let counters = switch.counters();
    let appeared = counters.received + counters.created_by_clone + counters.created_by_replication;
    let ended = counters.transmitted + counters.to_cpu + counters.dropped_total();
    assert_eq!(appeared, ended + switch.packets_inside(), "{counters:?}");
}
