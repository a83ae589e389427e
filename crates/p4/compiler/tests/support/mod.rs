//! Puts the rest of a program around an example that shows only a part of a program.

#![expect(clippy::panic, reason = "a test says what failed by panicking")]

/// Returns the whole program: the example with the rest of a program around it.
pub fn program(part: &str, text: &str) -> String {
    const BLOCKS: &str = "NoChecksum(), Tested(), NoEgress(), NoChecksum()";
    const METADATA: &str = "inout metadata_t meta, inout standard_metadata_t standard_metadata";
    let idle = "INGRESS { apply { } }\n";
    let around = match part {
        "program" => return text.to_owned(),
        "blocks" => text.to_owned(),
        "top" => format!("{text}{idle}PROGRAM(Tested(), NoEgress());\n"),
        "control" => format!("INGRESS {{\n{text}}}\nPROGRAM(Tested(), NoEgress());\n"),
        "apply" => format!("INGRESS {{ apply {{\n{text}}} }}\nPROGRAM(Tested(), NoEgress());\n"),
        "parser" => format!(
            "parser Example(packet_in packet, out headers_t hdr, {METADATA}) {{\n{text}}}\n\
             {idle}V1Switch(Example(), {BLOCKS}, TestDeparser()) main;\n"
        ),
        "checksum" => format!(
            "control Example(inout headers_t hdr, inout metadata_t meta) {{ apply {{\n{text}}} }}\n\
             {idle}V1Switch(TestParser(), NoChecksum(), Tested(), NoEgress(), Example(), TestDeparser()) main;\n"
        ),
        "deparser" => format!(
            "control Example(packet_out packet, in headers_t hdr) {{ apply {{\n{text}}} }}\n\
             {idle}V1Switch(TestParser(), {BLOCKS}, Example()) main;\n"
        ),
        other => panic!("`{other}` is no part of a program"),
    };
    format!("#include \"prelude.p4\"\n{around}")
}
