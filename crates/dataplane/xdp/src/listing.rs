//! Makes listings of compiled programs: each instruction as LLVM writes it, with its purpose beside it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bpf::Instruction;

use crate::asm::{Code, Symbol};
use crate::image::{Image, MapSpec};

/// Column at which the notes beside instructions begin.
const NOTE_COLUMN: usize = 56;

impl Image {
    /// Returns as text the program for the ports and, if there is one, the program for copies of a multicast group.
    pub fn listing(&self) -> String {
        let mut text = section("ports", &self.ingress, &self.maps);
        if let Some(egress) = &self.egress {
            text.push('\n');
            text.push_str(&section("copies of a multicast group", egress, &self.maps));
        }
        text
    }
}

fn section(name: &str, code: &Code, maps: &[MapSpec]) -> String {
    let n = code.instructions.len();
    format!("; {name}: {n} instructions\n{}", instructions(code, maps))
}

fn offset(base: u8, offset: i16) -> String {
    match offset {
        0 => format!("r{base}"),
        1.. => format!("r{base} + {offset}"),
        _ => format!("r{base} - {}", -i32::from(offset)),
    }
}

fn memory(code: u8, base: u8, at: i16) -> String {
    let unsigned = match code & 0x18 {
        0x10 => "u8",
        0x08 => "u16",
        0x00 => "u32",
        _ => "u64",
    };
    format!("*({unsigned} *)({})", offset(base, at))
}

fn helper(number: i32) -> &'static str {
    match number {
        1 => "bpf_map_lookup_elem",
        5 => "bpf_ktime_get_ns",
        8 => "bpf_get_smp_processor_id",
        44 => "bpf_xdp_adjust_head",
        51 => "bpf_redirect_map",
        54 => "bpf_xdp_adjust_meta",
        130 => "bpf_ringbuf_output",
        _ => "an unknown function",
    }
}

fn store(at: Instruction) -> String {
    let (to, from) = (at.registers & 0xf, at.registers >> 4);
    match at.code {
        // The compiler generates only these two atomic operations.
        0xdb if at.immediate == 0xf1 => {
            let place = offset(to, at.offset);
            format!("r0 = atomic_cmpxchg((u64 *)({place}), r0, r{from})")
        }
        0xdb => {
            let place = offset(to, at.offset);
            format!("r{from} = atomic_fetch_add((u64 *)({place}), r{from})")
        }
        code => format!("{} = r{from}", memory(code, to, at.offset)),
    }
}

fn operator(code: u8, offset: i16) -> &'static str {
    match (code & 0xf0, offset) {
        (0x00, _) => "+=",
        (0x10, _) => "-=",
        (0x20, _) => "*=",
        (0x30, 0) => "/=",
        (0x30, _) => "s/=",
        (0x40, _) => "|=",
        (0x50, _) => "&=",
        (0x60, _) => "<<=",
        (0x70, _) => ">>=",
        (0x90, 0) => "%=",
        (0x90, _) => "s%=",
        (0xa0, _) => "^=",
        (0xc0, _) => "s>>=",
        _ => "=",
    }
}

fn relation(code: u8) -> &'static str {
    match code & 0xf0 {
        0x10 => "==",
        0x20 => ">",
        0x30 => ">=",
        0x40 => "&",
        0x50 => "!=",
        0x60 => "s>",
        0x70 => "s>=",
        0xa0 => "<",
        0xb0 => "<=",
        0xc0 => "s<",
        _ => "s<=",
    }
}

fn arithmetic(at: Instruction) -> String {
    let (to, from) = (at.registers & 0xf, at.registers >> 4);
    let register = if at.code & 7 == 4 { "w" } else { "r" };
    match at.code {
        0xdc => format!("r{to} = be{} r{to}", at.immediate),
        0x87 => format!("r{to} = -r{to}"),
        code => {
            let operator = operator(code, at.offset);
            match code & 8 {
                0 => format!("{register}{to} {operator} {}", at.immediate),
                _ => format!("{register}{to} {operator} {register}{from}"),
            }
        }
    }
}

fn jump(at: Instruction, label: &str) -> String {
    let (left, right) = (at.registers & 0xf, at.registers >> 4);
    let register = if at.code & 7 == 6 { "w" } else { "r" };
    match at.code {
        0x05 => format!("goto {label}"),
        0x85 => format!("call {}", helper(at.immediate)),
        0x95 => "exit".into(),
        code => {
            let relation = relation(code);
            match code & 8 {
                0 => format!(
                    "if {register}{left} {relation} {} goto {label}",
                    at.immediate
                ),
                _ => format!("if {register}{left} {relation} {register}{right} goto {label}"),
            }
        }
    }
}

fn symbol(found: Option<&Symbol>, maps: &[MapSpec], constant: u64) -> String {
    let name = |map: &crate::image::MapRef| maps.get(map.index()).map_or("?", |map| &map.name);
    match found {
        Some(Symbol::Map(map)) => format!("map {}", name(map)),
        Some(Symbol::Value(map, at)) => format!("&{}[{at}]", name(map)),
        None => format!("{constant:#x} ll"),
    }
}

fn target(position: usize, at: Instruction) -> Option<usize> {
    let class = at.code & 7;
    let is_jump = matches!(class, 5 | 6) && !matches!(at.code, 0x85 | 0x95);
    let behind = position as i64 + 1 + i64::from(at.offset);
    is_jump.then(|| usize::try_from(behind).ok()).flatten()
}

/// Returns the program as text: one line per instruction, labels at jump targets.
fn instructions(code: &Code, maps: &[MapSpec]) -> String {
    let instructions = code.instructions.iter().copied().enumerate();
    let targets = instructions.filter_map(|(position, at)| target(position, at));
    let mut labels: BTreeMap<usize, String> =
        targets.map(|target| (target, String::new())).collect();
    for (number, label) in labels.values_mut().enumerate() {
        *label = format!("L{}", number + 1);
    }
    let label_at = |position: usize| labels.get(&position).map_or("?", String::as_str);
    let symbols: BTreeMap<usize, &Symbol> = code
        .symbols
        .iter()
        .map(|(at, symbol)| (*at, symbol))
        .collect();
    let mut notes = code.notes.iter().peekable();
    let mut text = String::new();
    let mut position = 0;
    while let Some(at) = code.instructions.get(position).copied() {
        if let Some(label) = labels.get(&position) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{label}:");
        }
        let mut note = None;
        while let Some((_, next)) = notes.next_if(|(at, _)| *at <= position) {
            note = Some(next);
        }
        let to = at.registers & 0xf;
        let line = match at.code & 7 {
            0 => {
                let high = code
                    .instructions
                    .get(position + 1)
                    .map_or(0, |it| it.immediate);
                let constant = u64::from(high as u32) << 32 | u64::from(at.immediate as u32);
                let found = symbols.get(&position).copied();
                format!("r{to} = {}", symbol(found, maps, constant))
            }
            1 => format!("r{to} = {}", memory(at.code, at.registers >> 4, at.offset)),
            2 => format!("{} = {}", memory(at.code, to, at.offset), at.immediate),
            3 => store(at),
            4 | 7 => arithmetic(at),
            _ => jump(at, target(position, at).map_or("?", label_at)),
        };
        let _ = match note {
            Some(note) => writeln!(text, "    {line:NOTE_COLUMN$}; {note}"),
            None => writeln!(text, "    {line}"),
        };
        position += if at.code == 0x18 { 2 } else { 1 };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asm::{Alu, Assembler, Jump, Size, reg::*};
    use crate::image::MapRef;

    #[test]
    fn a_line_an_instruction_with_labels_and_notes() {
        let mut asm = Assembler::default();
        let end = asm.label();
        asm.note("l3.p4:12");
        asm.load(Size::B2, R1, R8, 12);
        asm.to_be(R1, Size::B2);
        asm.jump_if_imm(Jump::Ne, R1, 0x800, end);
        asm.alu_imm(Alu::Add, R1, -1);
        asm.store(Size::B8, R10, -8, R1);
        asm.symbol(R2, Symbol::Value(MapRef(7), 64));
        asm.fetch_add(R2, 8, R1);
        asm.compare_exchange(R2, 16, R4);
        asm.place(end);
        asm.exit();
        let listing = instructions(&asm.finish().expect("labels are near"), &[]);
        let lines: Vec<&str> = listing.lines().map(str::trim).collect();
        let first = lines[0];
        assert!(first.starts_with("r1 = *(u16 *)(r8 + 12)") && first.ends_with("; l3.p4:12"));
        assert_eq!(
            lines[1..],
            [
                "r1 = be16 r1",
                "if r1 != 2048 goto L1",
                "r1 += -1",
                "*(u64 *)(r10 - 8) = r1",
                "r2 = &?[64]",
                "r1 = atomic_fetch_add((u64 *)(r2 + 8), r1)",
                "r0 = atomic_cmpxchg((u64 *)(r2 + 16), r0, r4)",
                "L1:",
                "exit",
            ]
        );
    }
}
