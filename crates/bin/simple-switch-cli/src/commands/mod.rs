//! The commands: one function for each, or for a few similar ones.

mod arrays;
mod multicast;
mod profiles;
mod show;
mod simple_switch;
mod switch;
mod tables;
mod value_sets;

use std::rc::Rc;

use crate::error::{Done, Ended, Error};
use crate::limits::COLUMNS;
use crate::program::Named;
use crate::session::{Session, say};

pub struct Typed<'a> {
    pub rest: &'a str,
    pub words: Vec<&'a str>,
}

impl<'a> Typed<'a> {
    pub fn new(rest: &'a str) -> Self {
        let words = rest.split_whitespace().collect();
        Self { rest, words }
    }

    fn at_least(&self, n: usize) -> Result<&[&'a str], Error> {
        match self.words.len() {
            found if found < n => Err(Error::input("Insufficient number of args")),
            _ => Ok(&self.words),
        }
    }

    fn exactly<const N: usize>(&self) -> Result<[&'a str; N], Error> {
        let found = self.words.len();
        self.words.as_slice().try_into().map_err(|_| {
            Error::input(format!(
                "Wrong number of args, expected {N} but got {found}"
            ))
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    Table,
    TableAndAction,
    Profile,
    ProfileAndAction,
    Meter,
    Counter,
    Register,
    ValueSet,
    Crc(u32),
}

pub struct Command {
    pub name: &'static str,
    usage: &'static str,
    /// Help text; empty if BMv2's command line has none for the command.
    about: &'static str,
    pub takes: Takes,
    pub run: fn(&mut Session, &Typed<'_>) -> Done,
}

macro_rules! commands {
    ($($name:literal, $usage:literal, $takes:expr, $run:expr, $about:literal;)*) => {
        &[$(Command { name: $name, usage: $usage, about: $about, takes: $takes, run: $run },)*]
    };
}

/// Every command but `help` and `EOF`, sorted by name.
pub const COMMANDS: &[Command] = commands! {
    "act_prof_add_member_to_group", "PROFILE MEMBER GROUP", Takes::Profile, profiles::add_to_group, "Puts a member into a group";
    "act_prof_create_group", "PROFILE", Takes::Profile, profiles::create_group, "Makes an empty group and says its handle";
    "act_prof_create_member", "PROFILE ACTION [ARGUMENT...]", Takes::ProfileAndAction, profiles::create_member, "Makes a member and says its handle";
    "act_prof_delete_group", "PROFILE GROUP", Takes::Profile, profiles::delete_group, "Takes a group away";
    "act_prof_delete_member", "PROFILE MEMBER", Takes::Profile, profiles::delete_member, "Takes a member away";
    "act_prof_dump", "PROFILE", Takes::Profile, profiles::dump, "Shows members and groups of an action profile";
    "act_prof_dump_group", "PROFILE GROUP", Takes::Profile, profiles::dump_group, "Shows a group";
    "act_prof_dump_member", "PROFILE MEMBER", Takes::Profile, profiles::dump_member, "Shows a member";
    "act_prof_modify_member", "PROFILE ACTION MEMBER [ARGUMENT...]", Takes::ProfileAndAction, profiles::modify_member, "Gives a member another action";
    "act_prof_remove_member_from_group", "PROFILE MEMBER GROUP", Takes::Profile, profiles::remove_from_group, "Takes a member out of a group";
    "counter_read", "COUNTER INDEX", Takes::Counter, arrays::counter_read, "Shows a counter; the index of a direct counter is an entry's handle";
    "counter_reset", "COUNTER", Takes::Counter, arrays::counter_reset, "Sets all cells to 0";
    "counter_write", "COUNTER INDEX PACKETS BYTES", Takes::Counter, arrays::counter_write, "Sets a counter";
    "get_time_elapsed", "", Takes::Nothing, simple_switch::time_elapsed, "Shows the microseconds since the switch started";
    "get_time_since_epoch", "", Takes::Nothing, simple_switch::time_since_epoch, "Shows the microseconds since the epoch of the switch's clock";
    "greet", "", Takes::Nothing, show::greet, "";
    "load_new_config_file", "FILE.json", Takes::Nothing, switch::load, "Gives the switch a program, which swap_configs starts";
    "mc_dump", "", Takes::Nothing, multicast::dump, "Shows multicast groups, their nodes, and LAGs";
    "mc_mgrp_create", "GROUP", Takes::Nothing, multicast::create, "Makes a multicast group";
    "mc_mgrp_destroy", "GROUP", Takes::Nothing, multicast::destroy, "Takes a multicast group away";
    "mc_node_associate", "GROUP NODE", Takes::Nothing, multicast::associate, "Puts a node into a group";
    "mc_node_create", "RID [PORT...] [| LAG...]", Takes::Nothing, multicast::node_create, "Makes a node and says its handle";
    "mc_node_destroy", "NODE", Takes::Nothing, multicast::node_destroy, "Takes a node away";
    "mc_node_dissociate", "GROUP NODE", Takes::Nothing, multicast::dissociate, "Takes a node out of a group";
    "mc_node_update", "NODE [PORT...] [| LAG...]", Takes::Nothing, multicast::node_update, "Gives a node other ports and LAGs";
    "mc_set_lag_membership", "LAG PORT...", Takes::Nothing, multicast::set_lag, "Sets a LAG's ports";
    "meter_array_set_rates", "METER RATE:BURST...", Takes::Meter, arrays::meter_array_set_rates, "Sets the rates of all cells, in units a microsecond, the lowest first";
    "meter_get_rates", "METER INDEX", Takes::Meter, arrays::meter_get_rates, "Shows a meter's rates; the index of a direct meter is an entry's handle";
    "meter_set_rates", "METER INDEX RATE:BURST...", Takes::Meter, arrays::meter_set_rates, "Sets a meter's rates, in bytes or packets a microsecond, the lowest first; bursts are bytes or packets";
    "mirroring_add", "SESSION PORT", Takes::Nothing, simple_switch::mirroring_add, "Makes a mirroring session send to a port";
    "mirroring_add_mc", "SESSION GROUP", Takes::Nothing, simple_switch::mirroring_add_mc, "Makes a mirroring session send to a multicast group";
    "mirroring_delete", "SESSION", Takes::Nothing, simple_switch::mirroring_delete, "Takes a mirroring session away";
    "mirroring_get", "SESSION", Takes::Nothing, simple_switch::mirroring_get, "Shows a mirroring session";
    "port_add", "INTERFACE PORT [PCAP]", Takes::Nothing, switch::port_add, "Gives the switch an interface as port";
    "port_remove", "PORT", Takes::Nothing, switch::port_remove, "Takes a port away";
    "pvs_add", "SET VALUE", Takes::ValueSet, value_sets::add, "Puts a value into a parser value set; one that is there already stays";
    "pvs_clear", "SET", Takes::ValueSet, value_sets::clear, "Empties a parser value set";
    "pvs_get", "SET", Takes::ValueSet, value_sets::get, "Shows the values of a parser value set, in hex, one a line";
    "pvs_remove", "SET VALUE", Takes::ValueSet, value_sets::remove, "Takes a value out of a parser value set, if it is there";
    "register_read", "REGISTER [INDEX]", Takes::Register, arrays::register_read, "Shows a cell, or all";
    "register_reset", "REGISTER", Takes::Register, arrays::register_reset, "Sets all cells to 0";
    "register_write", "REGISTER INDEX VALUE", Takes::Register, arrays::register_write, "Sets a cell";
    "reset_state", "", Takes::Nothing, switch::reset, "Clears tables, registers and all other state; the program stays";
    "serialize_state", "FILE", Takes::Nothing, switch::serialize, "Writes the switch's state into a file";
    "set_crc16_parameters", "HASH POLYNOMIAL INITIAL XOR REFLECT_DATA REFLECT_REMAINDER", Takes::Crc(16), switch::set_crc16, "Sets the parameters of a custom CRC of 16 bits";
    "set_crc32_parameters", "HASH POLYNOMIAL INITIAL XOR REFLECT_DATA REFLECT_REMAINDER", Takes::Crc(32), switch::set_crc32, "Sets the parameters of a custom CRC of 32 bits";
    "set_queue_depth", "PACKETS [PORT]", Takes::Nothing, simple_switch::queue_depth, "Sets how many packets an output queue holds, of one port or of all";
    "set_queue_rate", "PACKETS_A_SECOND [PORT]", Takes::Nothing, simple_switch::queue_rate, "Sets how fast an output queue sends, of one port or of all";
    "shell", "COMMAND", Takes::Nothing, switch::shell, "Runs a command of the shell; so does `! COMMAND`";
    "show_actions", "", Takes::Nothing, show::actions, "Lists the program's actions";
    "show_ports", "", Takes::Nothing, switch::show_ports, "Lists the switch's ports";
    "show_pvs", "", Takes::Nothing, show::value_sets, "Lists the program's parser value sets";
    "show_tables", "", Takes::Nothing, show::tables, "Lists the program's tables";
    "swap_configs", "", Takes::Nothing, switch::swap, "Starts the program that load_new_config_file gave";
    "switch_info", "", Takes::Nothing, switch::info, "Shows what the switch says of itself";
    "table_add", "TABLE ACTION KEY... => [ARGUMENT...] [PRIORITY]", Takes::TableAndAction, tables::add, "Adds an entry and says its handle. A key is VALUE, of an lpm field PREFIX/LENGTH, of a ternary one VALUE&&&MASK, of a range LOW->HIGH; the priority belongs to tables with ternary or range fields, the lowest wins";
    "table_clear", "TABLE", Takes::Table, tables::clear, "Takes all entries away; the default action stays";
    "table_delete", "TABLE HANDLE", Takes::Table, tables::delete, "Takes an entry away";
    "table_dump", "TABLE", Takes::Table, tables::dump, "Shows the entries and the default action";
    "table_dump_entry", "TABLE HANDLE", Takes::Table, tables::dump_entry, "Shows an entry";
    "table_dump_entry_from_key", "TABLE KEY... [PRIORITY]", Takes::Table, tables::dump_entry_from_key, "Shows the entry of a key";
    "table_dump_group", "TABLE GROUP", Takes::Table, profiles::table_dump_group, "Shows a group of the table's action profile";
    "table_dump_member", "TABLE MEMBER", Takes::Table, profiles::table_dump_member, "Shows a member of the table's action profile";
    "table_indirect_add", "TABLE KEY... => MEMBER [PRIORITY]", Takes::Table, tables::indirect_add, "Adds an entry that goes to a member of an action profile";
    "table_indirect_add_member_to_group", "TABLE MEMBER GROUP", Takes::Table, profiles::table_add_to_group, "Use act_prof_add_member_to_group";
    "table_indirect_add_with_group", "TABLE KEY... => GROUP [PRIORITY]", Takes::Table, tables::indirect_add_with_group, "Adds an entry that goes to a group of an action profile";
    "table_indirect_create_group", "TABLE", Takes::Table, profiles::table_create_group, "Use act_prof_create_group";
    "table_indirect_create_member", "TABLE ACTION [ARGUMENT...]", Takes::TableAndAction, profiles::table_create_member, "Use act_prof_create_member";
    "table_indirect_delete", "TABLE HANDLE", Takes::Table, tables::indirect_delete, "Takes an entry away";
    "table_indirect_delete_group", "TABLE GROUP", Takes::Table, profiles::table_delete_group, "Use act_prof_delete_group";
    "table_indirect_delete_member", "TABLE MEMBER", Takes::Table, profiles::table_delete_member, "Use act_prof_delete_member";
    "table_indirect_modify_member", "TABLE ACTION MEMBER [ARGUMENT...]", Takes::TableAndAction, profiles::table_modify_member, "Use act_prof_modify_member";
    "table_indirect_remove_member_from_group", "TABLE MEMBER GROUP", Takes::Table, profiles::table_remove_from_group, "Use act_prof_remove_member_from_group";
    "table_indirect_reset_default", "TABLE", Takes::Table, tables::indirect_reset_default, "Sets the program's default action again";
    "table_indirect_set_default", "TABLE MEMBER", Takes::Table, tables::indirect_set_default, "Sets the member of an action profile for packets that match no entry";
    "table_indirect_set_default_with_group", "TABLE GROUP", Takes::Table, tables::indirect_set_default_with_group, "Sets the group of an action profile for packets that match no entry";
    "table_info", "TABLE", Takes::Table, show::table, "Shows a table's key and actions";
    "table_modify", "TABLE ACTION HANDLE [ARGUMENT...]", Takes::TableAndAction, tables::modify, "Gives an entry another action";
    "table_num_entries", "TABLE", Takes::Table, tables::num_entries, "Shows how many entries there are";
    "table_reset_default", "TABLE", Takes::Table, tables::reset_default, "Sets the program's default action again";
    "table_set_default", "TABLE ACTION [ARGUMENT...]", Takes::TableAndAction, tables::set_default, "Sets the action for packets that match no entry";
    "table_set_timeout", "TABLE HANDLE MILLISECONDS", Takes::Table, tables::set_timeout, "Sets after how long without a hit an entry is idle";
    "table_show_actions", "TABLE", Takes::Table, show::table_actions, "Lists a table's actions";
    "write_config_to_file", "FILE.json", Takes::Nothing, switch::write_config, "Writes the switch's program into a file, as BMv2 JSON";
};

/// Looks up an object of the program by name or unique suffix; `what` names its kind in the error.
fn find<'a, T>(all: &'a Named<T>, what: &str, name: &str) -> Result<&'a T, Error> {
    let none = || Error::input(format!("Invalid {what} name ({name})"));
    all.get(name).ok_or_else(none)
}

pub fn help(session: &mut Session, topic: &str) -> Done {
    let of_all = COMMANDS.iter().filter(|command| !command.about.is_empty());
    if topic.is_empty() {
        let mut documented: Vec<&str> = of_all.map(|command| command.name).collect();
        documented.push("help");
        documented.sort_unstable();
        list(
            session,
            "Documented commands (type help <topic>):",
            &documented,
        )?;
        list(session, "Undocumented commands:", &["EOF", "greet"])?;
        return Ok(());
    }
    let mut of_all = of_all;
    match of_all.find(|command| command.name == topic) {
        Some(command) => say!(
            session,
            "{}: {} {}",
            command.about,
            command.name,
            command.usage
        )?,
        None if topic == "help" => say!(
            session,
            "Lists the commands, or says what one does: help [COMMAND]"
        )?,
        None => say!(session, "*** No help on {topic}")?,
    }
    Ok(())
}

/// Prints names in columns under a heading, as Python's `cmd` module does.
fn list(session: &mut Session, heading: &str, names: &[&str]) -> Result<(), Ended> {
    if heading.starts_with("Documented") {
        say!(session, "")?;
    }
    say!(session, "{heading}")?;
    say!(session, "{}", "=".repeat(heading.len()))?;
    for row in columns(names) {
        say!(session, "{row}")?;
    }
    say!(session, "")
}

/// Arranges names in as few rows as the line width allows, column by column.
fn columns(names: &[&str]) -> Vec<String> {
    let widths_of = |n_rows: usize| -> Vec<usize> {
        let columns = names.chunks(n_rows);
        let width = |column: &[&str]| column.iter().map(|name| name.len()).max();
        columns.map(|column| width(column).unwrap_or(0)).collect()
    };
    let fits = |n_rows: &usize| {
        let widths = widths_of(*n_rows);
        widths.iter().sum::<usize>() + 2 * (widths.len() - 1) < COLUMNS
    };
    let n_rows = (1..names.len()).find(fits).unwrap_or(names.len());
    let widths = widths_of(n_rows);
    let row = |row: usize| {
        let of_row = names.iter().skip(row).step_by(n_rows);
        let cells = of_row
            .zip(&widths)
            .map(|(name, &width)| format!("{name:width$}"));
        let cells: Vec<String> = cells.collect();
        cells.join("  ").trim_end().to_owned()
    };
    (0..n_rows).map(row).collect()
}

/// Returns another reference to the session's program, so that the command can borrow the session for its calls.
fn program(session: &Session) -> Rc<crate::program::Program> {
    session.program()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_in_order_and_there_once() {
        assert!(COMMANDS.is_sorted_by(|one, other| one.name < other.name));
    }

    #[test]
    fn names_fill_columns() {
        let names = ["a"; 30];
        assert_eq!(columns(&names).len(), 2);
        assert_eq!(columns(&["EOF", "greet"]), ["EOF  greet"]);
    }
}
