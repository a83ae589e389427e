//! Meter arrays and direct meters.

use crate::{
    Controlled, MatchField, MeterConfig, MeterCounts, MeterId, TableId,
    engine::{Change, TableChange},
    missing,
    program::ir::MeterArray,
    switch::{
        Switch,
        control::{place, tables::check_meter},
    },
};

impl Switch {
    fn declared_meter(&self, meter: MeterId) -> Controlled<&MeterArray> {
        let meters = &self.loaded()?.program.ir.meters;
        let declared = meters.get(meter.index());
        declared.ok_or_else(|| missing("meter", meter.index()))
    }

    fn place_in_meter(&self, meter: MeterId, index: u64) -> Controlled<usize> {
        let declared = self.declared_meter(meter)?;
        place(("meter", &declared.name), index, declared.cells)
    }

    /// The rates of a meter cell; `None` if the meter has no rates, so that it colours every packet green.
    ///
    /// # Errors
    /// `NotFound` if the array does not exist, `OutOfRange` if the index is beyond its end.
    pub fn meter_cell(&self, meter: MeterId, index: u64) -> Controlled<Option<MeterConfig>> {
        let index = self.place_in_meter(meter, index)?;
        let cell = self.loaded()?.externs.meters.get(meter, index);
        Ok(cell.and_then(|cell| cell.config()))
    }

    /// What a meter cell has counted since the program was loaded or the counts were reset.
    ///
    /// # Errors
    /// The same as for [`Switch::meter_cell`].
    pub fn meter_counts(&self, meter: MeterId, index: u64) -> Controlled<MeterCounts> {
        let index = self.place_in_meter(meter, index)?;
        let cell = self.loaded()?.externs.meters.get(meter, index);
        Ok(cell.map(|cell| cell.counts).unwrap_or_default())
    }

    /// Resets the counts of a meter cell; keeps its rates and buckets.
    ///
    /// # Errors
    /// The same as for [`Switch::meter_cell`].
    pub fn reset_meter_counts(&mut self, meter: MeterId, index: u64) -> Controlled {
        let index = self.place_in_meter(meter, index)?;
        self.collect();
        if let Some(cell) = self.loaded_mut()?.externs.meters.get_mut(meter, index) {
            cell.counts = MeterCounts::default();
        }
        Ok(())
    }

    /// Resets the counts of an entry's meter; keeps its rates and buckets.
    ///
    /// # Errors
    /// The same as for [`Switch::direct_meter`].
    pub fn reset_direct_meter_counts(
        &mut self,
        table: TableId,
        key: &[MatchField],
        priority: i32,
    ) -> Controlled {
        self.collect();
        let target = self.target(table)?;
        target.metered()?;
        let entry = target.find(key, priority)?;
        if let Some(meter) = target.table.meter_mut(entry) {
            meter.counts = MeterCounts::default();
        }
        Ok(())
    }

    /// Sets the rates of a meter cell and fills its buckets; `None` colours every packet green.
    ///
    /// # Errors
    /// The same as for [`Switch::meter_cell`], and `InvalidArgument` if the peak rate is below the
    /// committed rate.
    pub fn set_meter_cell(
        &mut self,
        meter: MeterId,
        index: u64,
        config: Option<MeterConfig>,
    ) -> Controlled {
        let declared = self.declared_meter(meter)?;
        let index = place(("meter", &declared.name), index, declared.cells)?;
        if let Some(config) = &config {
            check_meter("meter", declared.kind, config)?;
        }
        let meters = &mut self.model.state.externs.meters;
        if let Some(cell) = meters.get_mut(meter, index) {
            cell.set(config);
        }
        self.done(&Change::Meter(meter, index))
    }

    /// Number of cells of a meter array; 0 if it does not exist.
    pub fn meter_size(&self, meter: MeterId) -> u64 {
        let declared = self.declared_meter(meter);
        declared.map_or(0, |meter| meter.cells as u64)
    }

    /// The rates of an entry's meter; `None` if the meter has no rates, so that it colours every packet green.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`, `FailedPrecondition` if the table has no meters.
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

    /// Sets the rates of an entry's meter and fills its buckets; `None` colours every packet green.
    ///
    /// # Errors
    /// The same as for [`Switch::direct_meter`], and `InvalidArgument` if the peak rate is below the
    /// committed rate.
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
            meter.set(config);
        }
        self.done(&Change::Table(table, TableChange::Metered(entry)))
    }
}
