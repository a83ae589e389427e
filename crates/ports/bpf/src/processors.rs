//! The processors for which a per-CPU map has values.

use std::fs;
use std::io;
use std::sync::OnceLock;

/// Returns how many processors this machine can ever have: each entry of a per-CPU map has a value for each of them.
///
/// # Errors
/// The kernel's list cannot be read.
pub fn n_possible_processors() -> io::Result<usize> {
    static FOUND: OnceLock<usize> = OnceLock::new();
    if let Some(found) = FOUND.get() {
        return Ok(*found);
    }
    let text = fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let found = count(text.trim()).ok_or_else(|| {
        let message = format!("expected a list of processors, found `{}`", text.trim());
        io::Error::new(io::ErrorKind::InvalidData, message)
    })?;
    Ok(*FOUND.get_or_init(|| found))
}

/// Returns the number of the last processor in a list such as `0-3,8`, plus one: the kernel counts the gaps too.
fn count(list: &str) -> Option<usize> {
    let last = list.rsplit([',', '-']).next()?;
    Some(last.parse::<usize>().ok()? + 1)
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn processors_are_counted_up_to_the_last() {
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("0-127"), Some(128));
        assert_eq!(count("0-3,8"), Some(9));
        assert_eq!(count(""), None);
    }
}
