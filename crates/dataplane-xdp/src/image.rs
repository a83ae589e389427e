//! A compiled program with no kernel in it: what a loader needs to run it.
