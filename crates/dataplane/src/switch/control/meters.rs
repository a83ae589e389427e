//! Meter arrays and direct meters.

use crate::{
    ControlErrorKind, Controlled, MatchField, MeterConfig, MeterId, TableId,
    engine::{Change, TableChange},
    externs::meter::Meter,
    refuse,
    switch::{
        Switch,
        control::{beyond, tables::check_meter},
    },
};

/// Each call is atomic and takes effect between two passes.
impl Switch {
    fn meter_cells(&self, meter: MeterId, index: u64) -> Controlled<usize> {
        let Some(cells) = self.loaded()?.externs.meters.cells(meter) else {
            return refuse(
                ControlErrorKind::NotFound,
                format!("no meter {}", meter.index()),
            );
        };
        match usize::try_from(index).ok().filter(|index| *index < cells) {
            Some(index) => Ok(index),
            None => beyond("meter", index, cells),
        }
    }

    /// The rates of a cell of a meter array; none is green.
    ///
    /// # Errors
    /// `NotFound` for the array, `OutOfRange` for the index.
    pub fn meter_cell(&self, meter: MeterId, index: u64) -> Controlled<Option<MeterConfig>> {
        let index = self.meter_cells(meter, index)?;
        Ok(self.loaded()?.externs.meters.get(meter, index))
    }

    /// Sets the rates of a cell of a meter array, with full buckets; none makes it green.
    ///
    /// # Errors
    /// As [`Switch::meter_cell`], and `InvalidArgument` where the peak rate is below the committed
    /// one.
    pub fn set_meter_cell(
        &mut self,
        meter: MeterId,
        index: u64,
        config: Option<MeterConfig>,
    ) -> Controlled {
        let index = self.meter_cells(meter, index)?;
        let meters = &mut self.loaded_mut()?.externs.meters;
        if let (Some(kind), Some(config)) = (meters.kind(meter), &config) {
            check_meter("meter", kind, config)?;
        }
        meters.set(meter, index, config);
        self.tell(&Change::Meter(meter, index));
        Ok(())
    }

    /// Cells of a meter array; 0 where there is none.
    pub fn meter_size(&self, meter: MeterId) -> u64 {
        let cells = self.model.state.externs.meters.cells(meter);
        cells.map_or(0, |cells| cells as u64)
    }

    /// The rates of an entry's meter; none is green.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `FailedPrecondition` where the table has no meters.
    pub fn direct_meter(
        &mut self,
        table: TableId,
        key: &[MatchField],
        priority: i32,
    ) -> Controlled<Option<MeterConfig>> {
        let target = self.target(table)?;
        target.metered()?;
        let entry = target.find(key, priority)?;
        Ok(target.table.meter(entry))
    }

    /// Sets the rates of an entry's meter, with full buckets; none makes it green.
    ///
    /// # Errors
    /// As [`Switch::direct_meter`], and `InvalidArgument` where the peak rate is below the
    /// committed one.
    pub fn set_direct_meter(
        &mut self,
        table: TableId,
        key: &[MatchField],
        priority: i32,
        config: Option<MeterConfig>,
    ) -> Controlled {
        let target = self.target(table)?;
        let kind = target.metered()?;
        if let Some(config) = &config {
            check_meter(&target.what(), kind, config)?;
        }
        let entry = target.find(key, priority)?;
        if let Some(meter) = target.table.meter_mut(entry) {
            *meter = config.map(|config| Box::new(Meter::new(config)));
        }
        self.tell_table(table, TableChange::Modified(entry))
    }
}
