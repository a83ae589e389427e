//! Writes entries to tables. The tables are identified by their names in the program.

use dataplane::{
    ActionCall, ActionId, MatchField, Program, Switch, TableEntry, TableId, TableInfo,
};

pub(super) struct Writer<'a> {
    switch: &'a mut Switch,
    table: TableId,
    action: ActionId,
    name: &'static str,
}

/// Loads a program by its path below the repository's root.
pub(super) fn load(switch: &mut Switch, path: &str) {
    let program: Program = conformance::compile::program_at(path);
    switch.set_program(program);
}

fn is_called(full: &str, name: &str) -> bool {
    full.rsplit('.').next() == Some(name)
}

impl<'a> Writer<'a> {
    /// Makes a writer for a table and an action. Both are identified by the last part of their names.
    pub(super) fn new(
        switch: &'a mut Switch,
        name: &'static str,
        action: &str,
    ) -> Result<Self, String> {
        let missing = || format!("no table \"{name}\" with an action \"{action}\"");
        let program = switch.program().ok_or_else(missing)?;
        let called = |id: &ActionId| {
            let info = program.action_info(*id);
            info.is_some_and(|info| is_called(&info.name, action))
        };
        let table = |(id, info): (TableId, &TableInfo)| {
            let is_it = is_called(&info.name, name);
            let action = info.actions.iter().copied().find(called);
            Some((id, action.filter(|_| is_it)?))
        };
        let found = program.tables().find_map(table);
        let (table, action) = found.ok_or_else(missing)?;
        Ok(Self {
            switch,
            table,
            action,
            name,
        })
    }

    pub(super) fn insert(
        &mut self,
        key: Vec<MatchField>,
        priority: i32,
        args: &[&[u8]],
    ) -> Result<(), String> {
        let call = ActionCall {
            action: self.action,
            args: args.iter().map(|arg| arg.to_vec()).collect(),
        };
        let entry = TableEntry::new(key, priority, call);
        let inserted = self.switch.insert_entry(self.table, entry);
        inserted.map_err(|error| format!("{}: {error}", self.name))
    }
}

pub(super) fn exact(value: &[u8]) -> MatchField {
    MatchField::Exact(value.to_vec())
}
