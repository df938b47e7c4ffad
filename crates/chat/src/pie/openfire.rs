//! The export of Openfire's plugin User Import Export, in its own form: `<Openfire>` with a `<User>` for each account.
//!
//! [`user`] turns one of them into a `<user>` of XEP-0227, which is then read as any other. The codes of a contact's state are those of
//! Openfire's `RosterItem`.

use xmpp::{Element, ns};

/// The outermost element.
pub(super) const ROOT: &str = "Openfire";

/// A `<user>` of XEP-0227 with the same account, password and contacts. Elements that XEP-0227 has no place for stay as they are.
/// An error: the text that stands there, and the text that was expected.
pub(super) fn user(user: &Element) -> Result<Element, (String, &'static str)> {
    let text = |name: &str| user.content_of(name, "").map(|text| text.trim().to_owned()).unwrap_or_default();
    let (name, password) = (text("Username"), user.content_of("Password", "").unwrap_or_default());
    if name.is_empty() {
        return Err(("a <User> without <Username>".into(), "the name before the @"));
    }
    // The plugin writes the name where it cannot read the password.
    if *password == *name {
        let found = format!("user {name}: a password that is the name of the user");
        let expected = "another one: Openfire writes the name where it cannot read the password, as with LDAP and with keys \
                        of SCRAM only; import a dump of its tables ofUser and ofUserScram for those, or set the password with \
                        belfry account add";
        return Err((found, expected));
    }
    let mut made = Element::new("user", ns::PIE).with("name", &*name);
    if !password.is_empty() {
        made = made.with("password", &*password);
    }
    let mut roster = Element::new("query", ns::ROSTER);
    let mut others = Vec::new();
    for part in user.elements() {
        match part.name() {
            "Username" | "Password" => {}
            "Roster" => {
                for item in part.elements().filter(|item| item.is("Item", "")) {
                    others.extend(request(item));
                    roster = roster.children(contact(item));
                }
            }
            _ => others.push(part.clone()),
        }
    }
    Ok(made.children([roster]).children(others))
}

/// The contact of an item. `None`: it is one that Openfire has removed (-1).
fn contact(item: &Element) -> Option<Element> {
    let subscription = match item.attr("substatus").unwrap_or("0") {
        "-1" => return None,
        "0" => "none",
        "1" => "to",
        "2" => "from",
        "3" => "both",
        // Refused by this name when the user is read.
        other => other,
    };
    let mut made = Element::new("item", ns::ROSTER).with("subscription", subscription);
    for name in ["jid", "name"] {
        if let Some(value) = item.attr(name) {
            made = made.with(name, value);
        }
    }
    if item.attr("askstatus") == Some("0") {
        made = made.with("ask", "subscribe");
    }
    let groups = item.elements().filter(|group| group.is("Group", ""));
    Some(
        made.children(
            groups.map(|group| Element::new("group", ns::ROSTER).text(group.content().into_owned())),
        ),
    )
}

/// A request of the contact that the user has not seen yet (`recvstatus` 1).
fn request(item: &Element) -> Option<Element> {
    let jid = item.attr("jid").filter(|_| item.attr("recvstatus") == Some("1"))?;
    Some(Element::new("presence", ns::CLIENT).with("type", "subscribe").with("from", jid))
}
