//! Golden files, for tests: the exact bytes that each version writes, so that a change of them without a new version is noticed.
//!
//! A folder has a folder `vN` for each version, with a file for each thing that is new or written otherwise since version N - 1.
//! Beside the folder of a version that has been released stands `vN.sha256`, the list of its files as `sha256sum` writes it: such a
//! version is closed, and a change of any kind belongs to the next one (`docs/decisions/0062-what-crosses-versions.md`).

#![warn(missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// The kept files of one kind of things.
#[derive(Clone, Debug)]
pub struct Golden {
    folder: PathBuf,
    /// The version that this program writes.
    current: u16,
}

impl Golden {
    /// The files in `folder`, within the folder of a crate's manifest. `current`: the version that this program writes.
    pub fn new(manifest_folder: &str, folder: &str, current: u16) -> Golden {
        Golden { folder: Path::new(manifest_folder).join(folder), current }
    }

    /// Compares a text with its file, which is that of the newest version that has one. With `BLESS=1` in the environment a text without
    /// a file gets one, in the folder of the current version; a file that is there is never written.
    ///
    /// # Panics
    /// The text is another one than the file has, or there is no file.
    pub fn check(&self, name: &str, text: &str) {
        let Some((version, path)) = self.newest(name, self.current) else {
            let path = self.version_folder(self.current).join(name);
            assert!(
                std::env::var_os("BLESS").is_some(),
                "{}: there is no such file; BLESS=1 writes it",
                path.display()
            );
            return write(&path, text);
        };
        let expected = read(&path);
        assert_eq!(
            text,
            expected,
            "{}: this is written otherwise than by version {version}. Nodes of the versions beside it could not read it: \
             give it a new form in a new version (docs/decisions/0062-what-crosses-versions.md)",
            path.display()
        );
    }

    /// The files of a version by name: of each its newest form up to that version.
    ///
    /// # Panics
    /// A folder or file cannot be read.
    pub fn files(&self, version: u16) -> BTreeMap<String, String> {
        let names: BTreeSet<String> = (1..=version).flat_map(|version| self.names(version)).collect();
        let newest = |name: String| self.newest(&name, version).map(|(_, path)| (name, read(&path)));
        names.into_iter().filter_map(newest).collect()
    }

    /// Checks that versions that have been released are as they were then, and that each version before the current one has been
    /// released.
    ///
    /// # Panics
    /// A file of a released version was added, changed or removed, or a version has no list.
    pub fn assert_released_are_closed(&self) {
        for version in 1..=self.current {
            let list = self.folder.join(format!("v{version}.sha256"));
            if !list.exists() && version == self.current {
                continue;
            }
            let found = self.digests(version);
            let found: BTreeSet<&str> = found.lines().collect();
            let text = read(&list);
            let released: BTreeSet<&str> = text.lines().collect();
            let faults: Vec<_> = found.symmetric_difference(&released).collect();
            assert!(
                faults.is_empty(),
                "{}: version {version} is released, and its files are not as they were then: {faults:#?}. New and changed forms \
                 belong into the folder v{} and need that version (docs/decisions/0062-what-crosses-versions.md)",
                list.display(),
                version + 1
            );
        }
    }

    /// The list of a version's files, in the form of `sha256sum`.
    fn digests(&self, version: u16) -> String {
        let mut list = String::new();
        for name in self.names(version) {
            let digest = Sha256::digest(read(&self.version_folder(version).join(&name)));
            let _ = writeln!(list, "{}  {name}", stdx::hex::encode(&digest));
        }
        list
    }

    fn newest(&self, name: &str, version: u16) -> Option<(u16, PathBuf)> {
        let paths = (1..=version).rev().map(|version| (version, self.version_folder(version).join(name)));
        paths.into_iter().find(|(_, path)| path.exists())
    }

    /// The names of a version's own files, in order; none if it changed nothing.
    fn names(&self, version: u16) -> Vec<String> {
        let entries = std::fs::read_dir(self.version_folder(version)).into_iter().flatten().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    fn version_folder(&self, version: u16) -> PathBuf {
        self.folder.join(format!("v{version}"))
    }
}

/// Bytes in hexadecimal, 32 a line.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(32) {
        text.push_str(&stdx::hex::encode(line));
        text.push('\n');
    }
    text
}

/// The bytes of a text as [`hex`] writes it.
///
/// # Panics
/// The text is something else.
pub fn bytes_of_hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_ascii_whitespace().collect();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// Checks that a value of numbered fields (`cluster::fields`) only adds fields to its form of the version before: the program of that
/// version passes over fields whose numbers it does not know, and needs those that it knows. This reader of the form is independent of
/// the programs'.
///
/// # Errors
/// The first field that is missing or has another value, in words.
pub fn additions(before: &[u8], now: &[u8]) -> Result<(), String> {
    let faulty = |bytes: &[u8]| format!("no numbered fields: {bytes:02x?}");
    let before = fields(before).ok_or_else(|| faulty(before))?;
    let now = fields(now).ok_or_else(|| faulty(now))?;
    let mut rest = now.iter();
    for (number, value) in before {
        // Fields keep their order, as a list is a field that occurs several times.
        let Some((_, found)) = rest.find(|(other, _)| *other == number) else {
            return Err(format!("field {number} is missing, or comes in another order"));
        };
        // A value that has fields of its own may have more of them.
        if *found != value && additions(value, found).is_err() {
            return Err(format!("field {number} is {found:02x?} and was {value:02x?}"));
        }
    }
    Ok(())
}

/// Numbers and bytes of all fields; none for bytes that are something else.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, &[u8])>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let number = take_number(&mut bytes)?;
        let length = usize::try_from(take_number(&mut bytes)?).ok()?;
        let (value, rest) = bytes.split_at_checked(length)?;
        found.push((number, value));
        bytes = rest;
    }
    Some(found)
}

/// A number in LEB128.
fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..9 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|fault| panic!("{}: {fault}", path.display()))
}

fn write(path: &Path, text: &str) {
    let folder = path.parent().expect("a file is in a folder");
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, text))
        .unwrap_or_else(|fault| panic!("{}: {fault}", path.display()));
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    /// A folder of this process, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let folder = std::env::temp_dir().join(format!("golden-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&folder).expect("the test may do so");
            Folder(folder)
        }

        fn golden(&self, current: u16) -> Golden {
            Golden::new(&self.0.display().to_string(), "", current)
        }

        fn write(&self, name: &str, text: &str) {
            write(&self.0.join(name), text);
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_newest_form_of_a_thing_counts() {
        let folder = Folder::new("newest");
        folder.write("v1/a", "1");
        folder.write("v1/b", "1");
        folder.write("v2/a", "2");
        folder.golden(1).check("a", "1");
        folder.golden(2).check("a", "2");
        folder.golden(2).check("b", "1");
        let files = folder.golden(2).files(2);
        assert_eq!(
            files.into_iter().collect::<Vec<_>>(),
            [("a".into(), "2".into()), ("b".into(), "1".into())]
        );
        let golden = folder.golden(2);
        assert!(catch_unwind(|| golden.check("a", "1")).is_err());
    }

    #[test]
    fn a_released_version_is_closed() {
        let folder = Folder::new("closed");
        folder.write("v1/a", "1");
        folder.golden(1).assert_released_are_closed();
        assert!(catch_unwind(|| folder.golden(2).assert_released_are_closed()).is_err(), "without a list");
        folder.write("v1.sha256", &folder.golden(1).digests(1));
        folder.golden(2).assert_released_are_closed();
        folder.write("v2/a", "2");
        folder.golden(2).assert_released_are_closed();
        folder.write("v1/b", "1");
        assert!(catch_unwind(|| folder.golden(1).assert_released_are_closed()).is_err(), "an addition");
        std::fs::remove_file(folder.0.join("v1/b")).expect("it is there");
        folder.write("v1/a", "3");
        assert!(catch_unwind(|| folder.golden(2).assert_released_are_closed()).is_err(), "a change");
    }

    #[test]
    fn a_later_form_may_add_fields_and_no_more() {
        let before = [1, 1, 7, 2, 3, 5, 1, 9];
        assert_eq!(additions(&before, &before), Ok(()));
        assert_eq!(additions(&before, &[1, 1, 7, 9, 1, 1, 2, 3, 5, 1, 9]), Ok(()), "between them");
        assert_eq!(additions(&before, &[1, 1, 7, 2, 6, 5, 1, 9, 6, 1, 1]), Ok(()), "within one");
        let missing = additions(&before, &[1, 1, 7]);
        assert_eq!(missing, Err("field 2 is missing, or comes in another order".into()));
        assert!(additions(&before, &[1, 1, 8, 2, 3, 5, 1, 9]).is_err(), "another value");
        assert!(additions(&before, &[2, 3, 5, 1, 9, 1, 1, 7]).is_err(), "another order");
    }

    #[test]
    fn hexadecimal_text_comes_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(bytes_of_hex(&hex(&bytes)), bytes);
    }
}
