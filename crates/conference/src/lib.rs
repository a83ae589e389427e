//! The SFU control plane: groups and viewers to table entries, over P4Runtime.
