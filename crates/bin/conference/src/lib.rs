//! The command line of `reprise-conference`, beside the program, since the manual is made of it, too.

pub mod args;
