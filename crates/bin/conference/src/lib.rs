//! The command line of `reprise-conference`. It is a library, so that the executable and the generator of the manual
//! pages can both use it.

pub mod args;
