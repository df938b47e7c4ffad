//! The files of one authority: the account's key, the certificate with its key, the times of the latest orders. Each file is replaced
//! as a whole, so that after any crash, or with a full disk, the one of before is there.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use stdx::Instant;

use crate::limits;

/// A folder for each authority, so that certificates of one that is only for trials are never taken for good ones.
#[derive(Clone, Debug)]
pub struct CertificateFolder {
    path: PathBuf,
}

impl CertificateFolder {
    /// The folder below `root` for the authority with this directory.
    pub fn of(root: &Path, directory: &str) -> CertificateFolder {
        let host = directory.split_once("://").map_or(directory, |(_, rest)| rest);
        let host = host.split('/').next().unwrap_or(host);
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '_' };
        // Never `..`, and no hidden folder.
        let name: String = host.trim_matches('.').chars().map(plain).collect();
        CertificateFolder { path: root.join(name) }
    }

    /// The name of the folder, which says which authority it is of.
    pub fn authority(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Makes the folder, for its owner only.
    ///
    /// # Errors
    /// The system's error, with the path.
    pub fn make(&self) -> io::Result<()> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
        let closed = made.and_then(|()| fs::set_permissions(&self.path, Permissions::from_mode(0o700)));
        closed.map_err(|error| named(&self.path, &error))
    }

    /// PEM: the chain, and behind it the private key. One file, because two cannot be replaced at once.
    pub fn certificate(&self) -> PathBuf {
        self.path.join("certificate.pem")
    }

    fn account(&self) -> PathBuf {
        self.path.join("account.json")
    }

    fn orders(&self) -> PathBuf {
        self.path.join("orders")
    }

    /// The account as it was written; none: there is no account yet. One that is there and cannot be read is no reason to make
    /// another at the authority.
    pub(crate) fn read_account(&self) -> io::Result<Option<String>> {
        match fs::read_to_string(self.account()) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                let what = format!("{} cannot be read: {error}", self.account().display());
                Err(io::Error::new(error.kind(), what))
            }
        }
    }

    pub(crate) fn write_account(&self, text: &str) -> io::Result<()> {
        write(&self.account(), text)
    }

    /// Puts the account aside: the next attempt makes a new one.
    pub(crate) fn forget_account(&self) {
        let kept = fs::rename(self.account(), self.account().with_extension("unknown"));
        if let Err(error) = kept {
            tracing::warn!(%error, "an account of ACME that is of no use cannot be put aside");
        }
    }

    /// Writes a certificate beside the one in use, to be looked at first.
    pub(crate) fn write_candidate(&self, chain: &str, key: &str) -> io::Result<PathBuf> {
        let end = if chain.ends_with('\n') { "" } else { "\n" };
        let path = self.candidate();
        write(&path, &format!("{chain}{end}{key}"))?;
        Ok(path)
    }

    /// Replaces the certificate in use.
    pub(crate) fn accept_candidate(&self) -> io::Result<()> {
        let path = self.certificate();
        fs::rename(self.candidate(), &path).map_err(|error| named(&path, &error))
    }

    fn candidate(&self) -> PathBuf {
        self.path.join("candidate.pem")
    }

    /// The times of the latest orders. A line that cannot be read is left out.
    pub(crate) fn read_orders(&self) -> Vec<Instant> {
        let text = fs::read_to_string(self.orders()).unwrap_or_default();
        text.lines().filter_map(|line| line.trim().parse().ok()).map(Instant::from_unix_seconds).collect()
    }

    pub(crate) fn write_orders(&self, orders: impl Iterator<Item = Instant>) -> io::Result<()> {
        let lines: String = orders.map(|at| format!("{}\n", at.unix_seconds())).collect();
        write(&self.orders(), &lines)
    }

    /// Looks if a certificate would fit on the disk.
    pub(crate) fn check_room(&self) -> io::Result<()> {
        let path = self.path.join("room");
        let written = write(&path, &"\n".repeat(limits::ROOM));
        // A file that is left behind is overwritten by the next check.
        let _ = fs::remove_file(&path);
        written
    }
}

/// By renaming, so that a reader sees the old file or the new one, and readable by the owner only from the start.
fn write(path: &Path, content: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let written = write_new(&fresh, content).and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        // A part of it would keep the room that was missing.
        let _ = fs::remove_file(&fresh);
    }
    written.map_err(|error| named(path, &error))
}

fn write_new(path: &Path, content: &str) -> io::Result<()> {
    // An earlier crash may have left one.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{} cannot be written: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn authorities_have_folders_of_their_own_below_the_root() {
        let of = |directory: &str| CertificateFolder::of(Path::new("acme"), directory).path;
        assert_eq!(of(crate::PRODUCTION), Path::new("acme/acme-v02.api.letsencrypt.org"));
        assert_eq!(of("https://127.0.0.1:14000/dir"), Path::new("acme/127.0.0.1_14000"));
        assert_eq!(of("https://../../etc"), Path::new("acme"));
        assert_ne!(of(crate::PRODUCTION), of(crate::STAGING));
    }

    #[test]
    fn keys_are_for_the_owner_only() {
        let root = tempfile::tempdir().unwrap();
        let folder = CertificateFolder::of(root.path(), "https://a.test/");
        folder.make().unwrap();
        folder.write_account("{}").unwrap();
        folder.write_candidate("chain", "key").unwrap();
        folder.accept_candidate().unwrap();
        assert_eq!(mode(&folder.path), 0o700);
        assert_eq!((mode(&folder.account()), mode(&folder.certificate())), (0o600, 0o600));
        assert_eq!(fs::read_to_string(folder.certificate()).unwrap(), "chain\nkey");
        assert_eq!(folder.read_account().unwrap().as_deref(), Some("{}"));
    }

    #[test]
    fn an_account_that_cannot_be_read_is_not_one_that_is_not_there() {
        let root = tempfile::tempdir().unwrap();
        let folder = CertificateFolder::of(root.path(), "https://a.test/");
        folder.make().unwrap();
        assert_eq!(folder.read_account().unwrap(), None);
        fs::write(folder.account(), [0xff, 0xfe]).unwrap();
        let error = folder.read_account().unwrap_err();
        assert!(error.to_string().contains("account.json cannot be read"), "{error}");
        folder.forget_account();
        assert_eq!(folder.read_account().unwrap(), None);
        assert_eq!(fs::read(folder.account().with_extension("unknown")).unwrap(), [0xff, 0xfe], "put aside");
    }

    #[test]
    fn a_certificate_that_cannot_be_written_leaves_the_one_of_before() {
        let root = tempfile::tempdir().unwrap();
        let folder = CertificateFolder::of(root.path(), "https://a.test/");
        folder.make().unwrap();
        folder.write_candidate("old", "key").unwrap();
        folder.accept_candidate().unwrap();
        // As a full disk, also for root: the new file cannot be made.
        fs::create_dir(folder.candidate().with_extension("new")).unwrap();
        let error = folder.write_candidate("new", "key").unwrap_err();
        assert!(error.to_string().contains("candidate.pem cannot be written"), "{error}");
        assert_eq!(fs::read_to_string(folder.certificate()).unwrap(), "old\nkey");
    }

    #[test]
    fn the_times_of_orders_survive_a_restart() {
        let root = tempfile::tempdir().unwrap();
        let folder = CertificateFolder::of(root.path(), "https://a.test/");
        folder.make().unwrap();
        folder.check_room().unwrap();
        assert!(folder.read_orders().is_empty());
        let orders = [1_800_000_000, 1_800_000_060].map(Instant::from_unix_seconds);
        folder.write_orders(orders.into_iter()).unwrap();
        assert_eq!(folder.read_orders(), orders);
        fs::write(folder.orders(), "nonsense\n1800000000\n").unwrap();
        assert_eq!(folder.read_orders(), orders[..1]);
    }
}
