//! `[[xmpp.block_lists]]`: real-time block lists of addresses that send spam.
//!
//! `server/src/xmpp/rtbl.rs` follows them. Invariant: each node of a service stands once.

use std::path::Path;

use chat::rtbl::RtblSource;
use toml::de::DeTable;
use xmpp::Bare;

use super::reader::Section;

/// The form of an entry, for messages.
const FORM: &str = "{ service = \"xmppbl.org\" }, and perhaps `node`, `rooms` and `strangers`";

/// The node of public lists, as Prosody and ejabberd name it.
const NODE: &str = "muc_bans_sha256";

/// Lists that a server follows: each is a subscription, and its entries are memory of the process.
const MOST: usize = 16;

/// Reads the lists.
pub(super) fn read(section: &mut Section<'_, '_>) -> Vec<RtblSource> {
    let lists = section.tables(
        "block_lists",
        FORM,
        "Real-time block lists (RTBL) of addresses that send spam, as `mod_muc_rtbl` of Prosody and ejabberd follows: the ids of the items of `node` (\"muc_bans_sha256\" when left out) at the publish-subscribe service `service` are the SHA-256 of bare addresses or of domains. These addresses are refused in rooms, unless `rooms` is false; with `strangers = true` so are their messages and requests for subscription to accounts that do not have them among their contacts. Accounts of this server are never refused.",
        read_list,
    );
    let twice = |(index, list): &(usize, &RtblSource)| {
        lists[..*index].iter().any(|earlier| earlier.service == list.service && earlier.node == list.node)
    };
    if let Some((_, list)) = lists.iter().enumerate().find(twice) {
        let what = format!("{} of {} stands twice", list.node, list.service.as_str());
        section.mistake("block_lists", what, "each node of a service once");
    }
    if lists.len() > MOST {
        section.mistake("block_lists", format!("{} lists", lists.len()), format!("at most {MOST} lists"));
    }
    lists
}

/// One entry.
fn read_list(table: &DeTable<'_>, _folder: Option<&Path>) -> Result<RtblSource, (String, String)> {
    const KEYS: [&str; 4] = ["service", "node", "rooms", "strangers"];
    if let Some(key) = table.keys().find(|key| !KEYS.contains(&&**key.get_ref())) {
        return Err((format!("unknown key `{}`", key.get_ref()), format!("some of {}", KEYS.join(", "))));
    }
    let text = |name: &str| match table.get(name).map(|value| value.get_ref().as_str()) {
        None => Ok(None),
        Some(Some(text)) if !text.is_empty() => Ok(Some(text)),
        Some(_) => Err((format!("`{name}` is no text"), "text in quotes".to_owned())),
    };
    let flag = |name: &str, default: bool| match table.get(name).map(|value| value.get_ref().as_bool()) {
        None => Ok(default),
        Some(Some(flag)) => Ok(flag),
        Some(None) => Err((format!("`{name}` is neither true nor false"), "true or false".to_owned())),
    };
    let service = text("service")?.ok_or_else(|| ("no `service`".to_owned(), FORM.to_owned()))?;
    // Prepared as addresses of stanzas are, so that comparison with `from` is one of bytes.
    let bare = Bare::parse(service).map_err(|_| {
        (format!("{service:?} is no address"), "the address of a service, as \"xmppbl.org\"".to_owned())
    })?;
    let source = RtblSource {
        service: bare,
        node: text("node")?.unwrap_or(NODE).into(),
        rooms: flag("rooms", true)?,
        strangers: flag("strangers", false)?,
    };
    // A list of no use is a slip, and no reason to bother its service.
    if !source.rooms && !source.strangers {
        let what = format!("the list of {service} is used for nothing");
        return Err((what, "`rooms` or `strangers`, or no such list".into()));
    }
    Ok(source)
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn lists_are_read_and_are_for_rooms_unless_told_otherwise() {
        let text = "[[xmpp.block_lists]]\nservice = \"XMPPBL.org\"\n\
                    [[xmpp.block_lists]]\nservice = \"lists@x.org\"\nnode = \"spam\"\nrooms = false\nstrangers = true\n";
        let lists = Config::parse(text, "belfry.toml".as_ref()).unwrap().xmpp.block_lists;
        let shown = lists.iter().map(|list| (list.service.as_str(), &*list.node, list.rooms, list.strangers));
        let expected = [("xmppbl.org", "muc_bans_sha256", true, false), ("lists@x.org", "spam", false, true)];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn mistakes_name_the_fault() {
        for (entries, what) in [
            ("{ node = \"a\" }", "no `service`"),
            ("{ service = \"@\" }", "\"@\" is no address"),
            ("{ service = \"a.org\", rooms = \"no\" }", "`rooms` is neither true nor false"),
            ("{ service = \"a.org\", rooms = false }", "the list of a.org is used for nothing"),
            ("{ service = \"a.org\", hash = \"md5\" }", "unknown key `hash`"),
            ("{ service = \"a.org\", node = 5 }", "`node` is no text"),
            ("{ service = \"a.org\" }, { service = \"A.org\" }", "muc_bans_sha256 of a.org stands twice"),
        ] {
            let text = format!("[xmpp]\nblock_lists = [{entries}]\n");
            let error = Config::parse(&text, "belfry.toml".as_ref()).unwrap_err().to_string();
            assert!(error.contains(what), "{entries}: {error}");
        }
        let many: String = (0..17).map(|n| format!("{{ service = \"l{n}.org\" }},")).collect();
        let text = format!("[xmpp]\nblock_lists = [{many}]\n");
        let error = Config::parse(&text, "belfry.toml".as_ref()).unwrap_err().to_string();
        assert!(error.contains("at most 16 lists"), "{error}");
    }
}
