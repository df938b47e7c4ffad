//! The folder of the node's data: there, closed to others, writable, with room.
//!
//! The trial file is written as the user of this command, which need not be that of the node; the advice says so.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::Finding;
use crate::table::grouped;

const CHECK: &str = "data";
/// Bytes that should be free. Less than the first, a day of a busy node's call records and archive, is a warning; less than the second is a
/// problem, as writes of the database are refused soon.
const ROOM: (u64, u64) = (1 << 30, 64 << 20);
/// The name of the trial file.
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
    let path = folder.join(TRIAL);
    let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
    let written = made.and_then(|mut file| file.write_all(b"trial"));
    // One that could not be made is not there.
    let _ = fs::remove_file(&path);
    written
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
        std::os::unix::fs::symlink("/dev/full", folder.join(TRIAL)).unwrap();
        assert!(states(&folder)[0].starts_with("problem"), "no space left on device");
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(states(&file)[0].ends_with("is no folder"));
    }

    #[test]
    fn a_disk_that_is_nearly_full_is_told() {
        let state = |free| room(Path::new("/data"), free).state();
        assert_eq!([state(2 << 30), state(512 << 20), state(1 << 20)], ["ok", "warning", "problem"]);
    }
}
