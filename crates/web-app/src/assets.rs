//! The files of the page.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

/// One file.
#[derive(Debug)]
pub struct Asset {
    /// Its name below `/app/`; empty for the page itself.
    pub name: &'static str,
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// The file's bytes.
    pub content: &'static [u8],
    /// The value of `ETag` (RFC 9110 §8.8.3), with its quotes.
    pub tag: Box<str>,
}

macro_rules! files {
    ($($name:literal = $file:literal),* $(,)?) => {
        &[$(($name, $file, include_bytes!(concat!("../assets/", $file)))),*]
    };
}

static FILES: &[(&str, &str, &[u8])] = files![
    "" = "index.html",
    "app.js" = "app.js",
    "chat.js" = "chat.js",
    "device.js" = "device.js",
    "dom.js" = "dom.js",
    "icon.svg" = "icon.svg",
    "jssip.js" = "jssip.js",
    "licences.txt" = "licences.txt",
    "phone.js" = "phone.js",
    "provider.js" = "provider.js",
    "sasl.js" = "sasl.js",
    "scram.js" = "scram.js",
    "stream.js" = "stream.js",
    "style.css" = "style.css",
    "tones.js" = "tones.js",
    "xml.js" = "xml.js",
];

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let asset = |&(name, file, content): &(&'static str, &str, &'static [u8])| {
        let digest = Sha256::digest(content);
        let tag: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        Asset { name, content_type: content_type(file), content, tag: format!("\"{tag}\"").into() }
    };
    FILES.iter().map(asset).collect()
});

fn content_type(file: &str) -> &'static str {
    match file.rsplit_once('.') {
        Some((_, "html")) => "text/html; charset=utf-8",
        Some((_, "js")) => "text/javascript; charset=utf-8",
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "txt")) => "text/plain; charset=utf-8",
        Some((_, "svg")) => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

/// The file of that name below `/app/`; the page itself has none.
pub fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn text(name: &str) -> &'static str {
        std::str::from_utf8(find(name).unwrap_or_else(|| panic!("no {name}")).content).unwrap()
    }

    fn own() -> impl Iterator<Item = (&'static str, &'static str)> {
        let is_own = |name: &&str| name.ends_with(".js") && *name != "jssip.js";
        FILES.iter().map(|(name, ..)| *name).filter(is_own).map(|name| (name, text(name)))
    }

    #[test]
    fn each_file_of_the_folder_is_served_and_has_a_type() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        let mut there: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.ends_with(".md"))
            .collect();
        there.sort();
        let mut listed: Vec<&str> = FILES.iter().map(|(_, file, _)| *file).collect();
        listed.sort_unstable();
        assert_eq!(there, listed);
        for asset in ASSETS.iter() {
            assert_ne!(asset.content_type, "application/octet-stream", "{}", asset.name);
            assert!(asset.tag.len() == 26 && asset.tag.starts_with('"'), "{}", asset.tag);
        }
        assert!(find("index.html").is_none() && find("../Cargo.toml").is_none());
    }

    #[test]
    fn modules_name_only_files_that_are_served() {
        let mut seen = 0;
        for (name, module) in own() {
            for line in module.lines().filter(|line| line.starts_with("import ")) {
                let from = line.rsplit_once("\"./").and_then(|(_, rest)| rest.split_once('"'));
                let (file, _) = from.unwrap_or_else(|| panic!("{name}: not a file of ours: {line}"));
                assert!(find(file).is_some(), "{name}: {line}");
                seen += 1;
            }
        }
        assert!(seen > 8, "{seen} imports");
        let links = text("").split("src=\"").chain(text("").split("href=\"")).skip(1);
        let named: Vec<&str> =
            links.filter(|part| !part.starts_with('<')).filter_map(|part| part.split('"').next()).collect();
        assert!(named.contains(&"app.js") && named.contains(&"style.css"), "{named:?}");
        named.iter().for_each(|name| assert!(find(name).is_some(), "{name}"));
    }

    /// Text of other users is shown as text: there is no way from a string to HTML, code or a style.
    #[test]
    fn no_string_becomes_html_or_code() {
        let ways = [
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
            "new Function",
            "setHTML",
            "srcdoc",
            "createContextualFragment",
            ".href =",
            "javascript:",
        ];
        for (name, module) in own() {
            for way in ways {
                assert!(!module.contains(way), "{name} has {way}");
            }
            let parsers = module.matches("parseFromString").count();
            assert_eq!(parsers, usize::from(name == "xml.js"), "{name}: XML is read in one place");
            assert_eq!(module.matches("createPolicy").count(), usize::from(name == "xml.js"), "{name}");
        }
        let page = text("");
        let is_inline =
            |word: &str| word.starts_with("style=") || (word.starts_with("on") && word.contains('='));
        assert!(!page.split_whitespace().any(is_inline), "the policy refuses what stands in line");
        assert_eq!(page.matches("<script").count(), 1);
        assert!(page.contains("<script type=\"module\" src=\"app.js\"></script>"));
    }

    #[test]
    fn no_file_names_another_site() {
        for (name, _, content) in
            FILES.iter().filter(|(name, ..)| !["jssip.js", "licences.txt"].contains(name))
        {
            let text = std::str::from_utf8(content).unwrap();
            for part in text.split("//").skip(1) {
                let host = part.split(['"', '/', ' ', '\n']).next().unwrap_or_default();
                let is_namespace = ["jabber.org", "www.w3.org"].contains(&host);
                assert!(is_namespace || !host.contains('.'), "{name}: {host}");
            }
        }
    }

    /// `assets/README.md` lists the file from elsewhere; `tests/interop/tests/webphone.rs` makes it again from its packages.
    #[test]
    fn the_file_from_elsewhere_is_the_one_that_is_listed() {
        let digest: String =
            Sha256::digest(text("jssip.js")).iter().map(|byte| format!("{byte:02x}")).collect();
        let list = include_str!("../assets/README.md");
        assert!(list.contains(&digest), "jssip.js has the SHA-256 {digest}");
        for package in ["jssip", "debug", "ms", "events", "sdp-transform"] {
            assert!(list.contains(&format!("| {package} |")), "no licence of {package}");
            assert!(text("licences.txt").contains(&format!("== {package} ")), "{package}");
        }
    }
}
