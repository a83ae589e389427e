//! Executes the commands for meters, digests, value sets, action profiles and selectors.

use data_encoding::HEXLOWER;
use dataplane::{
    ActionProfileId, MatchField, MeterConfig, MeterId, ProfileGroup, ProfileMember, TableAction,
    TableId, WeightedCall,
};

use super::{Done, Runner, text};
use crate::{
    command::{Command, Match, Named},
    names::find,
};

impl Runner<'_> {
    /// Executes a command for these externs; `None` for other commands.
    pub(super) fn externs(&mut self, command: &Command) -> Option<Done> {
        Some(match command {
            Command::MeterWrite(name, index, rates) => self.meter_write(name, *index, *rates),
            Command::MeterSetRates(name, index, rates) => self.meter_set_rates(name, index, *rates),
            Command::MeterArraySetRates(name, rates) => self.meter_array_set_rates(name, *rates),
            Command::MeterGetRates(name, index) => self.meter_get_rates(name, index),
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

    fn meter(&self, name: &str) -> Done<MeterId> {
        find("meter", name, self.program()?.meters())
    }

    fn meter_write(&mut self, name: &str, index: u64, rates: Option<[u64; 4]>) -> Done {
        let meter = self.meter(name)?;
        let set = self.switch.set_meter_cell(meter, index, rates.map(config));
        set.map_err(text)
    }

    /// Sets a cell of a meter array, or the direct meter of an entry with an ID.
    fn meter_set_rates(&mut self, name: &str, index: &str, rates: [u64; 4]) -> Done {
        let Some((table, key, priority)) = self.entries.get(index) else {
            let index = crate::number::int(index)?;
            return self.meter_write(name, index, Some(rates));
        };
        self.is_direct_meter(name, *table)?;
        let config = Some(config(rates));
        let set = self.switch.set_direct_meter(*table, key, *priority, config);
        set.map_err(text)
    }

    fn meter_array_set_rates(&mut self, name: &str, rates: [u64; 4]) -> Done {
        let meter = self.meter(name)?;
        for index in 0..self.switch.meter_size(meter) {
            let set = self
                .switch
                .set_meter_cell(meter, index, Some(config(rates)));
            set.map_err(text)?;
        }
        Ok(())
    }

    fn meter_get_rates(&mut self, name: &str, index: &str) -> Done {
        let found = match self.entries.get(index) {
            Some((table, key, priority)) => {
                self.is_direct_meter(name, *table)?;
                self.switch.direct_meter(*table, key, *priority)
            }
            None => {
                let meter = self.meter(name)?;
                self.switch.meter_cell(meter, crate::number::int(index)?)
            }
        };
        found.map(|_| ()).map_err(text)
    }

    /// Fails if the table has no direct meter of this name.
    fn is_direct_meter(&self, name: &str, table: TableId) -> Done {
        let direct = self.program()?.direct_meter(table);
        let names = direct.into_iter().map(|(name, _)| ((), name));
        find("direct meter", name, names)
    }

    pub(super) fn expect_digest(
        &mut self,
        line: usize,
        name: &str,
        values: Option<&[Vec<u8>]>,
    ) -> Done {
        let wanted = || shown(name, values);
        let Some(found) = self.digests.pop_front() else {
            let message = format!("expected the digest {}, found none", wanted());
            self.fail(line, message);
            return Ok(());
        };
        let stripped = |value: &[u8]| {
            let zeros = value.iter().take_while(|byte| **byte == 0).count();
            value[zeros..].to_vec()
        };
        let is_wanted = found.name == name
            && values.is_none_or(|values| {
                let wanted = values.iter().map(|value| stripped(value));
                wanted.eq(found.members.iter().map(|value| stripped(value)))
            });
        if !is_wanted {
            let message = format!(
                "expected the digest {}, found {}",
                wanted(),
                shown(&found.name, Some(&found.members))
            );
            self.fail(line, message);
        }
        Ok(())
    }

    /// Fails for every digest that no line expects.
    pub(super) fn expect_no_digest(&mut self, line: usize) {
        for found in std::mem::take(&mut self.digests) {
            let found = shown(&found.name, Some(&found.members));
            self.fail(line, format!("expected no digest, found {found}"));
        }
    }

    fn value_set_add(&mut self, name: &str, member: &[Match]) -> Done {
        let set = find("value set", name, self.program()?.value_sets())?;
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
            counts_members: false,
            watched: Vec::new(),
        };
        self.switch.insert_group(profile, group).map_err(text)
    }

    /// The action of an entry. In a table with an action profile it is a member, a group, or a
    /// one-shot group.
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
                Ok(TableAction::OneShot(vec![WeightedCall {
                    call,
                    weight: 1,
                    watch: None,
                }]))
            }
        }
    }
}

/// A meter's configuration; rates are per second.
fn config([rate, burst, peak_rate, peak_burst]: [u64; 4]) -> MeterConfig {
    MeterConfig {
        committed_rate: rate,
        committed_burst: burst,
        peak_rate,
        peak_burst,
        ..MeterConfig::default()
    }
}

fn shown(name: &str, values: Option<&[Vec<u8>]>) -> String {
    let values = values.unwrap_or_default();
    let hex = |value: &Vec<u8>| format!(" 0x{}", HEXLOWER.encode(value));
    format!("{name}{}", values.iter().map(hex).collect::<String>())
}

/// Converts a part of a value set's key: a value, a prefix or a mask.
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
