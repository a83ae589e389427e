//! Files with data of packets and controllers, such as traces and logs, which only their owner may read. Other users
//! may be able to make files in the folder, so an existing file is checked before it is used, and opening a file never
//! waits for other users.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

const OWNERS: u32 = 0o600;
const ROOT: u32 = 0;

/// Opens an empty file. An existing file must belong to the switch's user, since its owner could read it whatever its
/// mode.
///
/// # Errors
/// The file belongs to another user, or the system refuses.
pub(crate) fn emptied(path: &Path) -> io::Result<File> {
    let file = open(path, OpenOptions::new().write(true))?;
    let found = file.metadata()?;
    let (kind, user) = (found.file_type(), privileges::user());
    // `--trace-to >(...)` names a link in /dev/fd to a pipe, which belongs to the shell's user.
    let is_named = kind.is_file() || (kind.is_fifo() && !is_link(path));
    if is_named && found.uid() != user {
        return Err(io::Error::other(format!(
            "expected a file of user {user}, the switch's, found one of user {}, who could read what packets bring: remove it, or name another",
            found.uid()
        )));
    }
    if kind.is_file() {
        file.set_permissions(Permissions::from_mode(OWNERS))?;
        file.set_len(0)?;
    }
    Ok(file)
}

/// Opens a file to append to it. Another user's file keeps its owner and mode: whoever named the file on the command
/// line wants that.
///
/// # Errors
/// The system refuses.
pub(crate) fn continued(path: &Path) -> io::Result<File> {
    let file = open(path, OpenOptions::new().append(true))?;
    let found = file.metadata()?;
    if found.is_file() && found.uid() == privileges::user() {
        file.set_permissions(Permissions::from_mode(OWNERS))?;
    }
    Ok(file)
}

/// Opens or creates a file without blocking: opening a pipe would wait for its reader. A link that another user has
/// made is refused, since it could lead to a file that only the switch may write.
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let mut flags = OFlags::NONBLOCK;
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_symlink() => {
            let owner = found.uid();
            if owner != privileges::user() && owner != ROOT {
                return Err(io::Error::other(format!(
                    "expected a file, found a symbolic link that user {owner} has made: remove it, or name another file"
                )));
            }
        }
        _ => flags |= OFlags::NOFOLLOW,
    }
    let options = options.create(true).mode(OWNERS);
    let file = options.custom_flags(flags.bits().cast_signed()).open(path);
    let file = file.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => io::Error::other(
            "expected a file, or a pipe that somebody reads, found a pipe without a reader: start the reader first",
        ),
        _ => error,
    })?;
    // From now on a write waits for a slow reader of a pipe, as usual.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_symlink())
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::{chown, lchown, symlink};
    use std::process::Command;

    use super::*;

    const ANOTHER: u32 = 1;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").mode() & 0o777
    }

    type Open = fn(&Path) -> io::Result<File>;

    fn opens() -> [(&'static str, Open); 2] {
        [("emptied", emptied), ("continued", continued)]
    }

    #[test]
    fn a_file_is_its_owners_whether_it_was_there_or_not() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, open) in opens() {
            let path = folder.path().join(name);
            open(&path).expect("made");
            assert_eq!(mode(&path), 0o600, "{name}");
            fs::write(&path, b"before").expect("written");
            fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("opened");
            let mut file = open(&path).expect("there");
            file.write_all(b"now").expect("written");
            assert_eq!(mode(&path), 0o600, "{name}");
        }
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("there");
        assert_eq!(read("emptied"), "now");
        assert_eq!(read("continued"), "beforenow");
    }

    #[test]
    fn a_pipe_without_a_reader_is_refused_at_once_and_one_with_a_reader_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pipe");
        let made = Command::new("mkfifo").arg(&path).status();
        assert!(made.expect("mkfifo starts").success());
        for (name, open) in opens() {
            let refused = open(&path).expect_err("nobody reads").to_string();
            assert!(
                refused.contains("start the reader first"),
                "{name}: {refused}"
            );
            let mut reader = File::options().read(true).write(true).open(&path);
            let reader = reader.as_mut().expect("both ends");
            open(&path)
                .expect("a reader")
                .write_all(b"now")
                .expect("written");
            let mut read = [0; 3];
            reader.read_exact(&mut read).expect("read");
            assert_eq!(&read, b"now", "{name}");
        }
    }

    #[test]
    fn a_link_of_ones_own_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
        fs::write(&file, b"before").expect("written");
        symlink(&file, &link).expect("a link");
        emptied(&link)
            .expect("one's own")
            .write_all(b"now")
            .expect("written");
        assert_eq!(fs::read(&file).expect("there"), b"now");
    }

    #[test]
    fn what_another_user_has_put_there_is_not_used() {
        if privileges::user() != ROOT {
            println!("not tested: only root can make another user's file");
            return;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let [file, link, theirs] = ["file", "link", "theirs"].map(|name| folder.path().join(name));
        fs::write(&file, b"precious").expect("written");
        symlink(&file, &link).expect("a link");
        lchown(&link, Some(ANOTHER), None).expect("another's link");
        for (name, open) in opens() {
            let refused = open(&link).expect_err("another's link").to_string();
            assert!(refused.contains("user 1 has made"), "{name}: {refused}");
        }
        assert_eq!(fs::read(&file).expect("there"), b"precious");
        fs::write(&theirs, b"theirs").expect("written");
        chown(&theirs, Some(ANOTHER), None).expect("another's file");
        let refused = emptied(&theirs).expect_err("another's file").to_string();
        assert!(refused.contains("found one of user 1"), "{refused}");
        assert_eq!(fs::read(&theirs).expect("there"), b"theirs");
    }
}
