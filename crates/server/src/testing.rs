//! For tests of this crate.

use std::path::Path;

/// A generated document is committed and compared; `BLESS=1` writes it anew.
pub(crate) fn assert_committed(path: &str, made: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, made).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == made,
        "{path} is not what the code makes; write it anew: BLESS=1 cargo test -p server"
    );
}
