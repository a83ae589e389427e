//! Commands for the switch as a whole: programs, state, ports, hashes. Also `shell`.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use bmv2_thrift::Call;
use bmv2_thrift::message::{Crc16, Crc32, PortInfo, SwitchInfo, read_all};

use super::{Typed, program};
use crate::connection::Operation;
use crate::error::{Done, Error};
use crate::program::Program;
use crate::session::{Session, say};
use crate::value::{decimal, integer};
use bmv2_json::ReadError;

/// Runs a shell command. If standard input is no terminal, it has the next commands for this program, so the shell
/// command gets an empty input.
pub fn shell(session: &mut Session, typed: &Typed<'_>) -> Done {
    session.out.flush()?;
    let stdin = if io::IsTerminal::is_terminal(&io::stdin()) {
        Stdio::inherit()
    } else {
        Stdio::null()
    };
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(typed.rest).stdin(stdin);
    let ended = command.stderr(Stdio::inherit()).output();
    let ended = ended.map_err(|error| Error::input(format!("/bin/sh: {error}")))?;
    Ok(session.out.lines(&String::from_utf8_lossy(&ended.stdout))?)
}

pub fn load(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [name] = typed.exactly()?;
    if !Path::new(name).is_file() {
        return Err(Error::input("Not a valid filename"));
    }
    say!(session, "Loading new Json config")?;
    let json = whole_file::read(Path::new(name), crate::program::FILE_BYTES_MAX)
        .map_err(|error| Error::input(format!("{name}: {error}")))?;
    let parsed = bmv2_json::from_slice(&json).map_err(|error| match error {
        ReadError::NoJson(_) => Error::input("Not a valid JSON file"),
        deep @ ReadError::TooDeep(_) => Error::input(format!("{name}: {deep}")),
    })?;
    let program =
        Program::new(&parsed).map_err(|error| Error::input(format!("{name}: {error}")))?;
    session.standard(
        Call::new("bm_load_new_config").bytes(&json),
        Operation::Swap,
    )?;
    session.set_program(program);
    Ok(())
}

pub fn swap(session: &mut Session, _: &Typed<'_>) -> Done {
    say!(session, "Swapping configs")?;
    session.standard(Call::new("bm_swap_configs"), Operation::Swap)?;
    Ok(())
}

pub fn reset(session: &mut Session, typed: &Typed<'_>) -> Done {
    typed.exactly::<0>()?;
    session.standard(Call::new("bm_reset_state"), Operation::Table)?;
    Ok(())
}

fn into_file(session: &mut Session, typed: &Typed<'_>, call: &'static str) -> Done {
    let [name] = typed.exactly()?;
    let answer = session.standard(Call::new(call), Operation::Table)?;
    let text = answer.result(|args, id| args.bytes(id))?;
    // The SIGINT handler waits a moment for this lock, so that no temporary file is left behind.
    let _whole = session.out.lock();
    let written = whole_file::write(Path::new(name), text);
    written.map_err(|error| Error::input(format!("{name}: {error}")))
}

pub fn write_config(session: &mut Session, typed: &Typed<'_>) -> Done {
    into_file(session, typed, "bm_get_config")
}

pub fn serialize(session: &mut Session, typed: &Typed<'_>) -> Done {
    into_file(session, typed, "bm_serialize_state")
}

fn port_number(text: &str) -> Result<i32, Error> {
    let number = decimal(text).and_then(|it| i32::try_from(it).ok());
    number.ok_or_else(|| Error::input("Bad format for port_num, must be an integer"))
}

pub fn port_add(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [interface, number, rest @ ..] = typed.at_least(2)? else {
        return Ok(());
    };
    let number = port_number(number)?;
    let pcap = rest.first().copied().unwrap_or_default();
    let call = Call::new("bm_dev_mgr_add_port").bytes(interface);
    session.standard(call.i32(number).bytes(pcap), Operation::Port)?;
    Ok(())
}

pub fn port_remove(session: &mut Session, typed: &Typed<'_>) -> Done {
    let [number] = typed.exactly()?;
    let call = Call::new("bm_dev_mgr_remove_port").i32(port_number(number)?);
    session.standard(call, Operation::Port)?;
    Ok(())
}

pub fn show_ports(session: &mut Session, typed: &Typed<'_>) -> Done {
    typed.exactly::<0>()?;
    let answer = session.standard(Call::new("bm_dev_mgr_show_ports"), Operation::Port)?;
    let ports: Vec<PortInfo> = answer.result(read_all)?;
    let (number, interface, status) = ("port #", "iface name", "status");
    say!(session, "{number:^10}{interface:^20}{status:^10}extra info")?;
    say!(session, "{}", "=".repeat(50))?;
    for port in &ports {
        let (number, interface) = (port.port, &port.interface);
        let status = if port.is_up { "UP" } else { "DOWN" };
        let extra = port.extra.iter();
        let extra: Vec<String> = extra
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let extra = extra.join("; ");
        say!(session, "{number:^10}{interface:^20}{status:^10}{extra}")?;
    }
    Ok(())
}

pub fn info(session: &mut Session, typed: &Typed<'_>) -> Done {
    typed.exactly::<0>()?;
    let answer = session.standard(Call::new("bm_mgmt_get_info"), Operation::Table)?;
    let info: SwitchInfo = answer.structure()?;
    say!(session, "{:25}: {}", "device_id", info.device_id)?;
    say!(session, "{:25}: {}", "thrift_port", info.thrift_port)?;
    let names = ["notifications_socket", "elogger_socket", "debugger_socket"];
    for (name, socket) in names.iter().zip(&info.sockets) {
        say!(
            session,
            "{name:25}: {}",
            socket.as_deref().unwrap_or("None")
        )?;
    }
    Ok(())
}

struct Crc {
    name: String,
    numbers: [i64; 3],
    reflected: [bool; 2],
}

fn flag(text: &str) -> Result<bool, Error> {
    match text {
        "true" | "True" => Ok(true),
        "false" | "False" => Ok(false),
        _ => match integer(text) {
            Some(number) => Ok(number.sign() != num_bigint::Sign::NoSign),
            None => Err(Error::input("Invalid bool parameter")),
        },
    }
}

fn crc(session: &Session, typed: &Typed<'_>, bits: u32) -> Result<Crc, Error> {
    let [name, polynomial, initial, xor, data, remainder] = typed.exactly()?;
    if program(session).crcs.get(name) != Some(&bits) {
        return Err(Error::input(format!(
            "Invalid crc{bits}_custom name ({name})"
        )));
    }
    let number = |text: &str| {
        let number = integer(text).and_then(|it| i64::try_from(it).ok());
        let range = -(1 << (bits - 1))..1i64 << bits;
        let number = number.filter(|number| range.contains(number));
        number.ok_or_else(|| match integer(text) {
            Some(_) => Error::input(format!("Integer cannot fit within {bits} bits")),
            None => Error::input(format!("expected an integer, found {text}")),
        })
    };
    Ok(Crc {
        name: name.to_owned(),
        numbers: [number(polynomial)?, number(initial)?, number(xor)?],
        reflected: [flag(data)?, flag(remainder)?],
    })
}

pub fn set_crc16(session: &mut Session, typed: &Typed<'_>) -> Done {
    let crc = crc(session, typed, 16)?;
    let parameters = Crc16 {
        numbers: crc.numbers.map(|number| number as i16),
        reflected: crc.reflected,
    };
    let call = Call::in_context("bm_set_crc16_custom_parameters").bytes(&crc.name);
    session.standard(call.structure(&parameters), Operation::Crc)?;
    Ok(())
}

pub fn set_crc32(session: &mut Session, typed: &Typed<'_>) -> Done {
    let crc = crc(session, typed, 32)?;
    let parameters = Crc32 {
        numbers: crc.numbers.map(|number| number as i32),
        reflected: crc.reflected,
    };
    let call = Call::in_context("bm_set_crc32_custom_parameters").bytes(&crc.name);
    session.standard(call.structure(&parameters), Operation::Crc)?;
    Ok(())
}
