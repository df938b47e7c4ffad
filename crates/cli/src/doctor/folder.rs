//! The folder of the node's data: there, closed to others, writable, with room.
//!
//! The trial file is written as the user of this command, which need not be that of the node; the advice says so.
//!
//! Invariant: root writes into a file that it has made, and into no other. The service's user could have put a link to a file of the system into the
//! folder.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use stdx::hex;

use super::Finding;
use crate::table::grouped;

const CHECK: &str = "data";
/// Bytes that should be free. Less than the first, a day of a busy node's call records and archive, is a warning; less than the second is a
/// problem, as writes of the database are refused soon.
const ROOM: (u64, u64) = (1 << 30, 64 << 20);
/// The name of the trial file, before its random part.
const TRIAL: &str = "doctor.trial";

/// `folder`: `[server] data`.
pub(super) fn check(folder: &Path) -> Vec<Finding> {
    let shown = folder.display();
    let metadata = match fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => metadata,
        Ok(_) => {
            return vec![Finding::problem(CHECK, format!("{shown} is no folder"), "change [server] data")];
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return vec![Finding::good(CHECK, format!("{shown} is not there yet: the node makes it"))];
        }
        Err(error) => {
            return vec![Finding::problem(
                CHECK,
                format!("{shown}: {error}"),
                "ask again as the user of the node, or as root",
            )];
        }
    };
    let mut findings = Vec::new();
    // Any permission for users that are neither owner nor of the group.
    if metadata.permissions().mode() & 0o007 != 0 {
        let mend = format!("chmod o= {shown}");
        findings.push(Finding::warning(
            CHECK,
            format!("{shown} is open to other users of the machine"),
            mend,
        ));
    }
    findings.push(match trial(folder) {
        Ok(()) => Finding::good(CHECK, format!("{shown} can be written")),
        Err(error) => Finding::problem(
            CHECK,
            format!("{shown} cannot be written: {error}"),
            "ask again as the user of the node; if it is that user: chown it, or mount it writable",
        ),
    });
    findings.push(match rustix::fs::statvfs(folder) {
        // `f_bavail`: without the blocks that are reserved for root.
        Ok(disk) => room(folder, disk.f_bavail.saturating_mul(disk.f_frsize)),
        Err(error) => {
            Finding::warning(CHECK, format!("{shown}: its disk does not tell its room: {error}"), "see: df")
        }
    });
    findings
}

/// Makes a file and removes it.
fn trial(folder: &Path) -> io::Result<()> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    trial_of(&folder.join(format!("{TRIAL}.{}", hex::encode(&random))))
}

/// The same under this name. A name that is taken is an error: nothing is written through a link, and nothing is removed.
fn trial_of(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = file.write_all(b"trial");
    let removed = fs::remove_file(path);
    written.and(removed)
}

/// `free`: bytes that a user without privileges can write.
fn room(folder: &Path, free: u64) -> Finding {
    let what = format!("{}: {} MiB are free", folder.display(), grouped(free >> 20));
    let mend = "make room, or move [server] data to a larger disk";
    match free {
        free if free < ROOM.1 => Finding::problem(CHECK, what, mend),
        free if free < ROOM.0 => Finding::warning(CHECK, what, mend),
        _ => Finding::good(CHECK, what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(folder: &Path) -> Vec<String> {
        check(folder).iter().map(|finding| format!("{} {}", finding.state(), finding.what)).collect()
    }

    #[test]
    fn a_folder_is_private_and_writable() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("data");
        assert!(states(&folder)[0].starts_with("ok") && states(&folder)[0].contains("not there yet"));
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        let open = states(&folder);
        assert!(open[0].starts_with("warning") && open[1].ends_with("can be written"), "{open:?}");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(states(&folder)[0].ends_with("can be written"));
        assert_eq!(folder.read_dir().unwrap().count(), 0, "the trial leaves nothing");
        // Not even root makes a file there.
        assert!(states(Path::new("/proc")).iter().any(|state| state.contains("/proc cannot be written")));
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(states(&file)[0].ends_with("is no folder"));
    }

    #[test]
    fn the_trial_follows_no_link_and_leaves_files_of_others() {
        let place = tempfile::tempdir().unwrap();
        let (outside, link) = (place.path().join("outside"), place.path().join(TRIAL));
        fs::write(&outside, "secret").unwrap();
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        assert!(states(place.path()).iter().any(|state| state.ends_with("can be written")));
        for taken in [&link, &outside] {
            assert_eq!(trial_of(taken).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!((fs::read_to_string(&outside).unwrap().as_str(), link.is_symlink()), ("secret", true));
    }

    #[test]
    fn a_disk_that_is_nearly_full_is_told() {
        let state = |free| room(Path::new("/data"), free).state();
        assert_eq!([state(2 << 30), state(512 << 20), state(1 << 20)], ["ok", "warning", "problem"]);
    }
}
