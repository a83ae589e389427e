//! Meters, value sets, action profiles and selectors.

use dataplane::{
    ActionProfileId, MatchField, MeterConfig, ProfileGroup, ProfileMember, TableAction, TableId,
    WeightedCall,
};

use super::{Done, Runner, text};
use crate::command::{Command, Match, Named};

impl Runner {
    /// Runs what is said to these externs; none for other commands.
    pub(super) fn externs(&mut self, command: &Command) -> Option<Done> {
        Some(match command {
            Command::MeterWrite(name, index, rates) => self.meter_write(name, *index, *rates),
            Command::ValueSetAdd(name, member) => self.value_set_add(name, member),
            Command::MemberAdd {
                table,
                member,
                action,
                args,
            } => self.member_add(table, *member, action, args),
            Command::GroupAdd(table, group, members) => self.group_add(table, *group, members),
            _ => return None,
        })
    }

    fn meter_write(&mut self, name: &str, index: u64, rates: Option<[u64; 4]>) -> Done {
        let meter = self.program()?.meter(name);
        let meter = meter.ok_or_else(|| format!("no meter \"{name}\""))?;
        let config = rates.map(|[rate, burst, peak_rate, peak_burst]| MeterConfig {
            committed_rate: rate,
            committed_burst: burst,
            peak_rate,
            peak_burst,
        });
        let set = self.switch.set_meter_cell(meter, index, config);
        set.map_err(text)
    }

    fn value_set_add(&mut self, name: &str, member: &[Match]) -> Done {
        let set = self.program()?.value_set(name);
        let set = set.ok_or_else(|| format!("no value set \"{name}\""))?;
        let fields: Done<Vec<MatchField>> = member.iter().map(value_set_field).collect();
        let mut members = self.switch.value_set(set);
        members.push(fields?);
        self.switch.set_value_set(set, members).map_err(text)
    }

    fn profile(&self, table: TableId) -> Done<Option<ActionProfileId>> {
        let info = self.program()?.table_info(table).ok_or("no such table")?;
        Ok(info.action_profile)
    }

    fn profile_of(&self, table: &str) -> Done<(TableId, ActionProfileId)> {
        let id = self.table(table)?;
        let profile = self.profile(id)?;
        let profile = profile.ok_or_else(|| format!("table \"{table}\" has no action profile"))?;
        Ok((id, profile))
    }

    fn member_add(&mut self, table: &str, id: u32, action: &str, args: &[Named<Vec<u8>>]) -> Done {
        let (table, profile) = self.profile_of(table)?;
        let action = self.call(table, action, args)?;
        let member = ProfileMember { id, action };
        self.switch.insert_member(profile, member).map_err(text)
    }

    fn group_add(&mut self, table: &str, id: u32, members: &[u32]) -> Done {
        let (_, profile) = self.profile_of(table)?;
        let group = ProfileGroup {
            id,
            max_size: 0,
            members: members.iter().map(|member| (*member, 1)).collect(),
        };
        self.switch.insert_group(profile, group).map_err(text)
    }

    /// What an entry runs: its action, or in a table with an action profile a member, a group, or
    /// a group of its own.
    pub(super) fn entry_action(
        &self,
        table: TableId,
        action: &str,
        args: &[Named<Vec<u8>>],
    ) -> Done<TableAction> {
        if self.profile(table)?.is_none() {
            return Ok(self.call(table, action, args)?.into());
        }
        match (action, args) {
            ("member", [(name, id)]) if name == "id" => Ok(TableAction::Member(id_of(id)?)),
            ("group", [(name, id)]) if name == "id" => Ok(TableAction::Group(id_of(id)?)),
            _ => {
                let call = self.call(table, action, args)?;
                Ok(TableAction::OneShot(vec![WeightedCall { call, weight: 1 }]))
            }
        }
    }
}

/// A part of a value set's key: a value, a prefix or a mask.
fn value_set_field(part: &Match) -> Done<MatchField> {
    Ok(match part {
        Match::Value(value) => MatchField::Exact(value.clone()),
        Match::Prefix(value, bits) => MatchField::Lpm {
            value: value.clone(),
            prefix_len: *bits,
        },
        Match::Mask(value, mask) => MatchField::Ternary {
            value: value.clone(),
            mask: mask.clone(),
        },
        Match::Range(..) => return Err("a value set has no ranges".into()),
    })
}

fn id_of(bytes: &[u8]) -> Done<u32> {
    let id = bytes.iter().try_fold(0_u32, |id, byte| {
        id.checked_mul(256)?.checked_add(u32::from(*byte))
    });
    id.ok_or_else(|| "an id has 32 bits".into())
}
