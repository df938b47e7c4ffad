//! XEP-0045 requirement by requirement: a row has the section, its demand, the stanzas sent, and all stanzas
//! received by any client. The cast: Crone1 owns the room and is in it as `firstwitch`, Wiccarocks is
//! `wicca`; Hag66 is outside.

mod admin;
mod entity;
mod moderator;
mod occupant;
mod owner;

use super::*;

/// One requirement.
pub(super) struct Row {
    section: &'static str,
    demand: &'static str,
    config: &'static [(&'static str, &'static str)],
    is_void: bool,
    before: Vec<(&'static str, String)>,
    sent: Vec<(&'static str, String)>,
    told: &'static [&'static str],
}

fn row(section: &'static str, demand: &'static str) -> Row {
    let (before, sent) = (Vec::new(), Vec::new());
    Row { section, demand, config: &[], is_void: false, before, sent, told: &[] }
}

impl Row {
    fn room(self, config: &'static [(&'static str, &'static str)]) -> Row {
        Row { config, ..self }
    }

    /// There is no room yet.
    fn void(self) -> Row {
        Row { is_void: true, ..self }
    }

    fn after(mut self, sender: &'static str, xml: impl Into<String>) -> Row {
        self.before.push((sender, xml.into()));
        self
    }

    fn when(mut self, sender: &'static str, xml: impl Into<String>) -> Row {
        self.sent.push((sender, xml.into()));
        self
    }

    /// Each line is one stanza: its recipient and content.
    fn told(self, told: &'static [&'static str]) -> Row {
        Row { told, ..self }
    }

    fn stage(&self) -> Hall {
        let mut hall = Hall::new();
        if !self.is_void {
            hall.enter(CRONE, "firstwitch");
            hall.enter(WICCA, "wicca");
            hall.configure(&[]);
            hall.enter(WICCA, "wicca");
            hall.configure(self.config);
        }
        for (sender, xml) in &self.before {
            hall.say(address(sender), xml);
        }
        hall.forget();
        hall
    }

    /// The difference from the expectation, if any.
    fn play(&self) -> Option<String> {
        let mut hall = self.stage();
        for (sender, xml) in &self.sent {
            hall.say(address(sender), xml);
        }
        let mut mail: Vec<(String, Vec<Element>)> = hall.mail.drain().collect();
        let place = |jid: &str| CAST.iter().position(|(_, address)| *address == jid).unwrap_or(CAST.len());
        mail.sort_by_key(|(jid, _)| (place(jid), jid.clone()));
        let lines = mail.iter().flat_map(|(receiver, heard)| {
            heard.iter().map(|stanza| format!("{}: {}", name(receiver), describe(stanza)))
        });
        let told: Vec<String> = lines.collect();
        (told != self.told).then(|| {
            let list =
                |lines: Vec<&str>| lines.iter().map(|line| format!("    {line}\n")).collect::<String>();
            let (told, expected) = (told.iter().map(String::as_str).collect(), self.told.to_vec());
            format!("§{} {}\n  expected\n{}  told\n{}", self.section, self.demand, list(expected), list(told))
        })
    }
}

/// Others are written with their whole address. They come last.
const CAST: [(&str, &str); 3] = [("crone", CRONE), ("wicca", WICCA), ("hag", HAG)];

fn address(name: &str) -> &str {
    CAST.iter().find(|(known, _)| *known == name).map_or(name, |(_, address)| address)
}

fn name(address: &str) -> &str {
    CAST.iter().find(|(_, known)| *known == address).map_or(address, |(name, _)| name)
}

/// One stanza on one line, without what is the same everywhere.
fn describe(stanza: &Element) -> String {
    if stanza.attr("type") == Some("error") {
        return format!("{} error {}", stanza.name(), outcome(stanza));
    }
    match stanza.name() {
        "presence" => described_presence(stanza),
        "message" => described_message(stanza),
        _ => described_iq(stanza),
    }
}

/// `hag unavailable none/outcast 110 301 =hag by firstwitch (Treason)`.
fn described_presence(presence: &Element) -> String {
    let mut line = seen(presence);
    let item = item(presence);
    if let Some(jid) = item.attr("jid") {
        line += &format!(" ={}", name(jid));
    }
    if let Some(nick) = item.attr("nick") {
        line += &format!(" now {nick}");
    }
    if let Some(actor) = item.get("actor", ns::MUC_USER).and_then(|actor| actor.attr("nick")) {
        line += &format!(" by {actor}");
    }
    line += &in_brackets(item.content_of("reason", ns::MUC_USER));
    let x = presence.get("x", ns::MUC_USER).unwrap();
    if let Some(destroy) = x.get("destroy", ns::MUC_USER) {
        line += &format!(" destroyed, go to {}", destroy.attr("jid").unwrap_or("nowhere"));
        line += &in_brackets(destroy.content_of("reason", ns::MUC_USER));
    }
    for (text, ns) in [("show", ns::CLIENT), ("status", ns::CLIENT)] {
        line += &in_brackets(presence.content_of(text, ns));
    }
    line
}

/// `hag says Hail`, `room subject`, `room status 104`.
fn described_message(message: &Element) -> String {
    let from = message.attr("from").unwrap();
    let from = from.split_once('/').map_or("room", |(_, nick)| nick);
    let mut line = from.to_owned();
    let verb = if message.attr("type") == Some("groupchat") { "says" } else { "whispers" };
    if let Some(body) = message.content_of("body", ns::CLIENT) {
        line += &format!(" {verb} {body}");
    }
    if let Some(subject) = message.content_of("subject", ns::CLIENT) {
        line += &format!(" subject{}", in_brackets(Some(subject)));
    }
    if message.get("delay", ns::DELAY).is_some() {
        line += " long ago";
    }
    if let Some(x) = message.get("x", ns::MUC_USER) {
        line += &described_x(x);
    }
    if let Some(form) = message.get("x", ns::DATA) {
        line += &format!(" form{}", described_form(form));
    }
    line
}

fn described_x(x: &Element) -> String {
    let mut line = String::new();
    for code in codes(x) {
        line += &format!(" status {code}");
    }
    for what in ["invite", "decline"] {
        if let Some(word) = x.get(what, ns::MUC_USER) {
            let from = word.attr("from").unwrap();
            line += &format!(" {what} from {}", from.strip_prefix(ROOM).unwrap_or(name(from)));
            line += &in_brackets(word.content_of("reason", ns::MUC_USER));
            line += word.get("continue", ns::MUC_USER).map_or("", |_| " to continue");
        }
    }
    if let Some(password) = x.content_of("password", ns::MUC_USER) {
        line += &format!(" password {password}");
    }
    if let Some(item) = x.get("item", ns::MUC_USER) {
        let attr = |name| item.attr(name).unwrap_or("");
        line += &format!(" {} is {}/{}", attr("jid"), attr("role"), attr("affiliation"));
        line += &in_brackets(item.content_of("reason", ns::MUC_USER));
    }
    line
}

fn described_form(form: &Element) -> String {
    let fields = form.elements().filter(|child| child.is("field", ns::DATA));
    let shown = fields.filter(|field| field.attr("var") != Some("FORM_TYPE"));
    let shown = shown.map(|field| {
        let value = field.content_of("value", ns::DATA).unwrap_or_default();
        format!(" {}={}", field.attr("var").unwrap(), name(&value))
    });
    shown.collect()
}

/// `result`, and its content.
fn described_iq(iq: &Element) -> String {
    let kind = iq.attr("type").unwrap();
    let Some(query) = iq.first() else { return kind.to_owned() };
    let mut line = format!("{kind} {}", query.name());
    for child in query.elements() {
        line += &match child.name() {
            "item" => described_item(child),
            "identity" => {
                format!(" {}/{}{}", of(child, "category"), of(child, "type"), in_brackets(child.attr("name")))
            }
            "feature" if of(child, "var").starts_with("muc_") => format!(" {}", of(child, "var")),
            "feature" => String::new(),
            "x" => format!(" form{}", described_form(child)),
            _ => format!(" {}{}", child.name(), in_brackets(Some(child.content()))),
        };
    }
    line
}

fn described_item(item: &Element) -> String {
    let jid = item.attr("jid").map_or("", name);
    let mut line = format!(" [{}", jid.strip_prefix(ROOM).filter(|nick| !nick.is_empty()).unwrap_or(jid));
    for attr in ["nick", "role", "affiliation"] {
        line += &item.attr(attr).map_or(String::new(), |value| format!(" {value}"));
    }
    line += &in_brackets(item.content_of("reason", ns::MUC_ADMIN));
    line + "]"
}

fn of<'a>(element: &'a Element, attr: &str) -> &'a str {
    element.attr(attr).unwrap_or("")
}

fn in_brackets(text: Option<impl AsRef<str>>) -> String {
    text.map_or(String::new(), |text| format!(" ({})", text.as_ref()))
}

/// All rows of a part at once, so that a change shows all that it breaks.
fn play(rows: &[Row]) {
    let wrong: Vec<String> = rows.iter().filter_map(Row::play).collect();
    crate::requirements::assert_none(&wrong, rows.len());
}

fn enter(nick: &str) -> String {
    enter_with(nick, "")
}

fn enter_with(nick: &str, inside: &str) -> String {
    format!("<presence id='e' to='{ROOM}/{nick}'><x xmlns='{}'>{inside}</x></presence>", ns::MUC)
}

fn presence(nick: &str, inside: &str) -> String {
    format!("<presence to='{ROOM}/{nick}'>{inside}</presence>")
}

fn leave(nick: &str, inside: &str) -> String {
    format!("<presence type='unavailable' to='{ROOM}/{nick}'>{inside}</presence>")
}

fn groupchat(inside: &str) -> String {
    format!("<message id='m' type='groupchat' to='{ROOM}'>{inside}</message>")
}

fn body_of(text: &str) -> String {
    format!("<body>{text}</body>")
}

fn message(to: &str, inside: &str) -> String {
    format!("<message id='m' to='{to}'>{inside}</message>")
}

fn in_user(inside: &str) -> String {
    format!("<x xmlns='{}'>{inside}</x>", ns::MUC_USER)
}

fn iq(kind: &str, to: &str, payload: &str) -> String {
    format!("<iq id='q' type='{kind}' to='{to}'>{payload}</iq>")
}

fn set(items: &str) -> String {
    iq("set", ROOM, &format!("<query xmlns='{}'>{items}</query>", ns::MUC_ADMIN))
}

fn get(items: &str) -> String {
    iq("get", ROOM, &format!("<query xmlns='{}'>{items}</query>", ns::MUC_ADMIN))
}

fn owner(kind: &str, inside: &str) -> String {
    iq(kind, ROOM, &format!("<query xmlns='{}'>{inside}</query>", ns::MUC_OWNER))
}

fn form(kind: &str, fields: &[(&str, &str)]) -> String {
    let field = |(var, value): &(&str, &str)| format!("<field var='{var}'><value>{value}</value></field>");
    format!("<x xmlns='jabber:x:data' type='{kind}'>{}</x>", fields.iter().map(field).collect::<String>())
}

fn configure(fields: &[(&str, &str)]) -> String {
    owner("set", &form("submit", fields))
}

fn register(kind: &str, inside: &str) -> String {
    iq(kind, ROOM, &format!("<query xmlns='jabber:iq:register'>{inside}</query>"))
}
