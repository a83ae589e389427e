//! The command line of `reprise-conference`. It is in a library beside the executable, since the manual is generated
//! from it, too.

pub mod args;
