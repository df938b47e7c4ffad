//! Root in a folder of the service's user.
//!
//! The package gives the folder of the data to the user of its service, and commands are given by root: what root left there as its own, the
//! service could not write. A database that is made there belongs to the owner of the folder from its first byte (`chat_store::database`), and so
//! does one that a copy has made. Commands that make more than that are refused.
//!
//! Invariant: root never gives away a file that it finds in such a folder. The service's user could have put it there: a link to a file of the system.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::error::CliError;

/// User and group of a folder that belongs to another user than root, if this process is root.
fn foreign_owner(folder: &Path) -> io::Result<Option<(u32, u32)>> {
    let found = std::fs::metadata(folder)?;
    let is_foreign = rustix::process::geteuid().is_root() && found.uid() != 0;
    Ok(is_foreign.then(|| (found.uid(), found.gid())))
}

/// Gives a file that root has just made to the owner of its folder.
pub(super) fn give_to_owner_of_folder(file: &Path) -> Result<(), CliError> {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let failed = |error: io::Error| CliError::Other(format!("{}: {error}", file.display()));
    let Some((user, group)) = foreign_owner(folder).map_err(failed)? else { return Ok(()) };
    // The file looked at is the file given away, even if its name has moved since. A pipe does not block.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let opened = match OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(file) {
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => return Ok(()),
        opened => opened.map_err(failed)?,
    };
    let found = opened.metadata().map_err(failed)?;
    // A file with a second name is another one, which was put in its place meanwhile.
    if found.is_file() && found.uid() == 0 && found.nlink() == 1 {
        fchown(opened, Some(user), Some(group)).map_err(failed)?;
    }
    Ok(())
}

/// Gives a file to the owner of its folder, by the descriptor that it was made with.
pub(super) fn give_new(file: &File, folder: &Path) -> io::Result<()> {
    match foreign_owner(folder)? {
        Some((user, group)) => fchown(file, Some(user), Some(group)),
        None => Ok(()),
    }
}

/// Refuses a command of root on the data of another user: certificate, secrets and files of users that it makes would be root's.
pub(super) fn refuse_foreign(folder: &Path, command: &str) -> Result<(), CliError> {
    // A folder that is not there is made by the command.
    let Ok(Some((user, _))) = foreign_owner(folder) else { return Ok(()) };
    Err(CliError::Other(format!(
        "{} belongs to the user with the number {user}, who could not read what root leaves there; give the command as that user: \
         sudo -u '#{user}' belfry {command} (a service is started with: systemctl start belfry)",
        folder.display()
    )))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    /// The number of a user that owns nothing.
    const OTHER: u32 = 65534;

    #[test]
    fn a_file_that_root_makes_in_a_users_folder_becomes_that_users() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("data")).unwrap();
        for name in ["outside", "data/copy.db"] {
            std::fs::write(path(name), "").unwrap();
        }
        symlink(path("outside"), path("data/link")).unwrap();
        std::fs::hard_link(path("outside"), path("data/second")).unwrap();
        let own = std::fs::metadata(path("outside")).unwrap().uid();
        let owner = |name: &str| std::fs::symlink_metadata(path(name)).unwrap().uid();
        give_to_owner_of_folder(&path("data/copy.db")).unwrap();
        assert_eq!(owner("data/copy.db"), own);
        for folder in ["data", "gone"] {
            refuse_foreign(&path(folder), "serve").unwrap();
        }
        if !rustix::process::geteuid().is_root() {
            // Only root can give files away.
            return;
        }
        chown(path("data"), Some(OTHER), Some(OTHER)).unwrap();
        for name in ["copy.db", "link", "second"] {
            give_to_owner_of_folder(&path("data").join(name)).unwrap();
        }
        give_new(&File::create_new(path("data/new")).unwrap(), &path("data")).unwrap();
        assert_eq!((owner("data/copy.db"), owner("data/new")), (OTHER, OTHER));
        assert_eq!((owner("outside"), owner("data/link"), owner("data/second")), (0, 0, 0));
        let refused = refuse_foreign(&path("data"), "serve").unwrap_err().to_string();
        assert!(refused.contains("sudo -u '#65534' belfry serve"), "{refused}");
    }
}
