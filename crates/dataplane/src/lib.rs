//! The switch core: loader, tables, reference interpreter, traffic manager.
