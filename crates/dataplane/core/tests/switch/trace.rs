//! Traces: compares the text about a packet with the expected text in a file.

use std::sync::{Arc, Mutex};

use dataplane::{
    CloneSession, PortId, Replica, SwitchConfig, TraceEvent, TraceRenderer, TraceSink,
};
use testkit::builder::*;

#[derive(Default)]
struct Text {
    renderer: TraceRenderer,
    text: Arc<Mutex<String>>,
}

impl TraceSink for Text {
    fn event(&mut self, event: &TraceEvent) {
        let lines = self.renderer.render(event);
        self.text.lock().unwrap().push_str(&lines);
    }
}

#[test]
fn a_recirculated_packet_and_its_clone_are_reported_step_by_step() {
    let mut b = Builder::default();
    b.field_list(1, &["m.kept"]);
    b.run(INGRESS, "in", &[output_to(3)]);
    let clone = op("==", field("standard_metadata.instance_type"), hex(2));
    b.condition(EGRESS, "is_clone", clone, None, Some("t"));
    let go = b.action(
        "go",
        &[("left", 8)],
        &[
            assign("pkt.left", param(0)),
            prim("clone_egress_pkt_to_egress", &[hex(5), hex(1)]),
            prim("recirculate", &[hex(1)]),
        ],
    );
    let stop = b.action("stop", &[], &[mark_to_drop()]);
    let table = b.table(
        EGRESS,
        "t",
        &[("exact", "pkt.left")],
        &[("go", go), ("stop", stop)],
        None,
    );
    table["default_entry"] = serde_json::json!({"action_id": stop, "action_data": []});
    table["entries"] = serde_json::json!([{"priority": 1,
        "match_key": [{"match_type": "exact", "key": "0x02"}],
        "action_entry": {"action_id": go, "action_data": ["0x01"]}}]);
    b.start(EGRESS, "is_clone");
    let mut switch = b.switch(SwitchConfig::default());
    let replicas = vec![Replica {
        port: PortId(7),
        instance: 0,
    }];
    let session = CloneSession {
        id: 5,
        replicas,
        truncate_bytes: None,
        class_of_service: 0,
    };
    switch.insert_clone_session(session).unwrap();
    let sink = Text::default();
    let text = Arc::clone(&sink.text);
    switch.set_trace(Some(Box::new(sink)));
    exchange(&mut switch, 1_500_000, 2, &[0, 2, 0, 0]);
    switch.set_trace(None);
    exchange(&mut switch, 1_500_000, 2, &[0, 2, 0, 0]);
    let expected = include_str!("trace_expected.txt");
    let text = text.lock().unwrap();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/switch/trace_expected.txt"
        );
        std::fs::write(path, text.as_str()).unwrap();
        return;
    }
    assert_eq!(text.as_str(), expected);
}
