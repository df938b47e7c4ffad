//! `docs/configuration.md`, made from the code that reads the keys.
//!
//! A test compares the page with the file; `server::limits_table` uses [`keys`], too.

use std::fmt::Write as _;

use super::read_all;
use super::reader::KeyDoc;

/// The beginning of the page.
const HEAD: &str = "\
# Configuration

`belfry serve` and all other commands read the file named with `--config`; else the one named in `BELFRY_CONFIG`; else `belfry.toml` in the present folder;
else `/etc/belfry/belfry.toml`, the package's. Without any of them everything below has its default: loopback only, domain `localhost`. `belfry check-config FILE` says what is wrong with a file, and
where. Paths count from the folder the file is in. `belfry reload`, or SIGHUP, takes a changed file over and names the keys that need a restart.

Accounts, domains, aliases and routes are not here: they are data, and change while the node runs (`belfry account`, `belfry
domain`, `belfry route`). A complete example is `belfry.example.toml` in this folder.

This page is made by the code that reads the file; `BLESS=1 cargo test -p config` writes it anew.
";

/// Every key of the file, in the order of the page.
/// The calls that read an empty file name every key once, as no section reads a key depending on another one's
/// value.
pub fn keys() -> Vec<KeyDoc> {
    read_all("", None).2
}

/// The whole page.
/// One heading a section, one paragraph a key. A key's section changes only where the next section begins,
/// because each is read in one go.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    let mut section = "";
    for key in keys() {
        if key.section != section {
            section = key.section;
            let _ = writeln!(page, "\n## [{section}]");
        }
        let default = key.default.map_or("none".into(), |default| format!("`{default}`"));
        let _ = writeln!(page, "\n**`{}`** — {}\n", key.name, key.doc);
        let _ = writeln!(page, "- {}\n- default: {default}", capital(&key.form));
    }
    page
}

/// With a capital at its beginning.
fn capital(text: &str) -> String {
    let mut messages = text.chars();
    messages.next().map_or(String::new(), |first| first.to_uppercase().chain(messages).collect())
}
