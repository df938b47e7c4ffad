//! Room on the disk: a gate that runs out of it fails in tests that have nothing to do with it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Bytes that the tests write besides what is built: databases, recordings, reports.
const NEEDED: u64 = 4 << 30;
/// With less than this after the run, failures may be the disk's.
const NEARLY_FULL: u64 = 1 << 30;

/// Refuses to begin where the tests cannot end.
pub(super) fn expect_space(root: &Path) -> Result<()> {
    for folder in [root, &std::env::temp_dir()] {
        let free = free(folder)?;
        if free < NEEDED {
            bail!(
                "{}: {} MiB are free, the tests need {} MiB: make room (`cargo clean` frees what is built)",
                folder.display(),
                free >> 20,
                NEEDED >> 20
            );
        }
    }
    Ok(())
}

/// Says after a failed run that the disk may be its cause.
pub(super) fn report_if_full(root: &Path) {
    for folder in [root, &std::env::temp_dir()] {
        if let Ok(free) = free(folder)
            && free < NEARLY_FULL
        {
            eprintln!(
                "gate: {}: only {} MiB are free; tests may have failed for that alone",
                folder.display(),
                free >> 20
            );
        }
    }
}

/// Bytes free at `folder`, by `df`.
fn free(folder: &Path) -> Result<u64> {
    let output = Command::new("df").args(["-P", "-k"]).arg(folder).output().context("cannot run df")?;
    parse(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("df printed nothing that can be read for {}", folder.display()))
}

/// The fourth column of the second line, in units of 1,024 bytes, as POSIX has it.
fn parse(output: &str) -> Option<u64> {
    let free: u64 = output.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(free << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_free_space_is_read_from_df() {
        let output = "Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/vda 264113152 12582912 83886080 14% /\n";
        assert_eq!(parse(output), Some(83_886_080 << 10));
        assert_eq!(parse("df: /nowhere: No such file or directory\n"), None);
    }

    #[test]
    fn this_disk_has_a_free_space() {
        assert!(free(crate::workspace()).is_ok_and(|free| free > 0));
    }
}
