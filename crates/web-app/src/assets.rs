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
    "history.js" = "history.js",
    "icon.svg" = "icon.svg",
    "jssip.js" = "jssip.js",
    "lang/de.json" = "lang/de.json",
    "lang/en.json" = "lang/en.json",
    "licences.txt" = "licences.txt",
    "phone.js" = "phone.js",
    "provider.js" = "provider.js",
    "sasl.js" = "sasl.js",
    "scram.js" = "scram.js",
    "stream.js" = "stream.js",
    "style.css" = "style.css",
    "text.js" = "text.js",
    "tones.js" = "tones.js",
    "voicemail.js" = "voicemail.js",
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
        Some((_, "json")) => "application/json",
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
    use std::collections::{BTreeMap, BTreeSet};
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
        let names = |folder: &Path| -> Vec<String> {
            let entries = std::fs::read_dir(folder).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        let mut there = names(&folder);
        there.retain(|name| !name.ends_with(".md") && name != "lang");
        there.extend(names(&folder.join("lang")).iter().map(|name| format!("lang/{name}")));
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

    fn texts(language: &str) -> BTreeMap<String, String> {
        serde_json::from_str(text(&format!("lang/{language}.json"))).unwrap()
    }

    /// The names in braces, in any order.
    fn names_in(text: &str) -> Vec<&str> {
        let mut names: Vec<&str> =
            text.split('{').skip(1).filter_map(|part| part.split_once('}')).map(|(name, _)| name).collect();
        names.sort_unstable();
        names
    }

    /// The rest of the line behind each call of `t`.
    fn calls_of_t(module: &str) -> impl Iterator<Item = &str> {
        let is_call =
            |at: usize| !module[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || "._$".contains(c));
        let calls = module.match_indices("t(").filter(move |(at, _)| is_call(*at));
        calls.filter_map(|(at, _)| module[at + 2..].lines().next())
    }

    #[test]
    fn every_language_has_every_text_with_the_same_names_in_it() {
        let english = texts("en");
        let listed = text("text.js").split_once("LANGUAGES = {").and_then(|(_, rest)| rest.split_once('}'));
        let files = FILES.iter().filter_map(|(name, ..)| name.strip_prefix("lang/")?.strip_suffix(".json"));
        for language in files {
            assert!(listed.unwrap().0.contains(&format!("{language}: ")), "{language} cannot be chosen");
            let translated = texts(language);
            assert!(translated.keys().eq(english.keys()), "{language}");
            for (key, text) in &translated {
                assert!(!text.trim().is_empty(), "{language}: {key} is empty");
                assert_eq!(names_in(text), names_in(&english[key]), "{language}: {key}");
            }
        }
    }

    /// Keys that are put together from a part and a value, as `state.sent`, begin with one of these.
    #[test]
    fn the_page_and_its_modules_name_texts_that_there_are_and_no_text_is_left_over() {
        let english = texts("en");
        let mut named: BTreeSet<&str> = BTreeSet::new();
        let attributes = ["data-t=\"", "data-t-placeholder=\"", "data-t-title=\"", "data-t-aria-label=\""];
        let of_page = attributes.iter().flat_map(|start| text("").split(start).skip(1));
        named.extend(of_page.filter_map(|part| part.split('"').next()));
        let mut beginnings = Vec::new();
        for (_, module) in own().filter(|(name, _)| *name != "text.js") {
            for call in calls_of_t(module) {
                let mut words = call.split('"').skip(1).step_by(2);
                // A key, or a choice of two; what stands behind them may be anything.
                named.extend(words.next().filter(|_| call.starts_with('"')));
                named.extend(call.split('"').skip(1).step_by(2).filter(|word| english.contains_key(*word)));
                beginnings.extend(call.strip_prefix('`').and_then(|key| key.split("${").next()));
            }
        }
        let missing: Vec<_> = named.iter().filter(|key| !english.contains_key(**key)).collect();
        assert!(missing.is_empty() && beginnings.len() > 5, "{missing:?} {beginnings:?}");
        let is_named = |key: &str| {
            named.contains(key) || beginnings.iter().any(|start| !start.is_empty() && key.starts_with(start))
        };
        let idle: Vec<_> = english.keys().filter(|key| !is_named(key)).collect();
        assert!(idle.is_empty(), "no module shows {idle:?}");
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
