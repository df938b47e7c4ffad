//! The stanzas of users, written straight into the buffer: the names in them are the lab's own and need no escape.

use std::io::Write as _;

use xmpp::ns;

use super::message_mark::MessageMark;

/// A `Vec` takes everything.
macro_rules! put {
    ($out:expr, $($text:tt)*) => {
        let _ = write!($out, $($text)*);
    };
}

/// RFC 7395 §3.3.
pub(super) fn open(out: &mut Vec<u8>, domain: &str) {
    put!(out, "<open xmlns='{}' to='{domain}' version='1.0'/>", ns::FRAMING);
}

/// RFC 6120 §4.2; XML declaration included.
pub(super) fn header(out: &mut Vec<u8>, domain: &str) {
    put!(
        out,
        "<?xml version='1.0'?><stream:stream to='{domain}' version='1.0' xmlns='{}' xmlns:stream='{}'>",
        ns::CLIENT,
        ns::STREAM
    );
}

pub(super) fn starttls(out: &mut Vec<u8>) {
    put!(out, "<starttls xmlns='{}'/>", ns::TLS);
}

pub(super) fn auth(out: &mut Vec<u8>, mechanism: &str, initial: &str) {
    put!(out, "<auth xmlns='{}' mechanism='{mechanism}'>{initial}</auth>", ns::SASL);
}

pub(super) fn response(out: &mut Vec<u8>, text: &str) {
    put!(out, "<response xmlns='{}'>{text}</response>", ns::SASL);
}

/// The names are the lab's, but passwords are whatever the operator says.
pub(super) fn register(out: &mut Vec<u8>, name: &str, password: &str) {
    let password = xmpp::xml::escape(password);
    put!(
        out,
        "<iq type='set' id='register'><query xmlns='{}'><username>{name}</username><password>{password}</password></query></iq>",
        ns::REGISTER
    );
}

pub(super) fn unregister(out: &mut Vec<u8>, id: u32) {
    put!(out, "<iq type='set' id='i{id}'><query xmlns='{}'><remove/></query></iq>", ns::REGISTER);
}

pub(super) fn bind(out: &mut Vec<u8>) {
    put!(out, "<iq type='set' id='bind'><bind xmlns='{}'><resource>ringer</resource></bind></iq>", ns::BIND);
}

pub(super) fn session(out: &mut Vec<u8>) {
    put!(out, "<iq type='set' id='session'><session xmlns='{}'/></iq>", ns::SESSION);
}

pub(super) fn roster_get(out: &mut Vec<u8>, id: impl std::fmt::Display) {
    put!(out, "<iq type='get' id='{id}'><query xmlns='{}'/></iq>", ns::ROSTER);
}

/// `name`: what the contact is called; `None`: no longer.
pub(super) fn roster_set(out: &mut Vec<u8>, id: u32, contact: &str, name: Option<&str>) {
    let rest = match name {
        Some(name) => format!("name='{name}'"),
        None => "subscription='remove'".to_owned(),
    };
    put!(
        out,
        "<iq type='set' id='i{id}'><query xmlns='{}'><item jid='{contact}' {rest}/></query></iq>",
        ns::ROSTER
    );
}

pub(super) fn vcard_get(out: &mut Vec<u8>, id: u32, of: &str) {
    put!(out, "<iq type='get' id='i{id}' to='{of}'><vCard xmlns='{}'/></iq>", ns::VCARD);
}

pub(super) fn vcard_set(out: &mut Vec<u8>, id: u32, name: &str) {
    put!(
        out,
        "<iq type='set' id='i{id}'><vCard xmlns='{}'><FN>{name}</FN><DESC>changed {id} times</DESC></vCard></iq>",
        ns::VCARD
    );
}

pub(super) fn ping(out: &mut Vec<u8>, id: u32, to: &str) {
    put!(out, "<iq type='get' id='i{id}' to='{to}'><ping xmlns='{}'/></iq>", ns::PING);
}

/// `what`: one of the two namespaces of XEP-0030.
pub(super) fn disco(out: &mut Vec<u8>, id: u32, to: &str, what: &str) {
    put!(out, "<iq type='get' id='i{id}' to='{to}'><query xmlns='{what}'/></iq>");
}

/// XEP-0118.
const TUNE: &str = "http://jabber.org/protocol/tune";

pub(super) fn pep_publish(out: &mut Vec<u8>, id: u32) {
    put!(
        out,
        "<iq type='set' id='i{id}'><pubsub xmlns='{}'><publish node='{TUNE}'><item id='current'><tune xmlns='{TUNE}'><title>Tune {id}</title></tune></item></publish></pubsub></iq>",
        ns::PUBSUB
    );
}

pub(super) fn pep_get(out: &mut Vec<u8>, id: u32) {
    put!(
        out,
        "<iq type='get' id='i{id}'><pubsub xmlns='{}'><items node='{TUNE}'/></pubsub></iq>",
        ns::PUBSUB
    );
}

/// XEP-0191: `block` or `unblock`.
pub(super) fn blocking(out: &mut Vec<u8>, id: u32, wanted: &str, jid: &str) {
    put!(
        out,
        "<iq type='set' id='i{id}'><{wanted} xmlns='{}'><item jid='{jid}'/></{wanted}></iq>",
        ns::BLOCKING
    );
}

/// The name of the load's node.
const NODE: &str = "ringer";

/// XEP-0060 §8.1.3: a node that all may publish to and read.
pub(super) fn create_node(out: &mut Vec<u8>, id: u32, service: &str) {
    let field = |name: &str, value: &str| format!("<field var='{name}'><value>{value}</value></field>");
    let fields = [
        field("FORM_TYPE", "http://jabber.org/protocol/pubsub#node_config"),
        field("pubsub#access_model", "open"),
        field("pubsub#publish_model", "open"),
    ];
    put!(
        out,
        "<iq type='set' id='i{id}' to='{service}'><pubsub xmlns='{}'><create node='{NODE}'/><configure><x xmlns='{}' type='submit'>{}</x></configure></pubsub></iq>",
        ns::PUBSUB,
        ns::DATA,
        fields.concat()
    );
}

/// Each user has one item there.
pub(super) fn publish(out: &mut Vec<u8>, id: u32, service: &str, item: &str) {
    put!(
        out,
        "<iq type='set' id='i{id}' to='{service}'><pubsub xmlns='{}'><publish node='{NODE}'><item id='{item}'><tune xmlns='{TUNE}'><title>Tune {id}</title></tune></item></publish></pubsub></iq>",
        ns::PUBSUB
    );
}

pub(super) fn items(out: &mut Vec<u8>, id: u32, service: &str) {
    put!(
        out,
        "<iq type='get' id='i{id}' to='{service}'><pubsub xmlns='{}'><items node='{NODE}' max_items='1'/></pubsub></iq>",
        ns::PUBSUB
    );
}

/// The newest page.
pub(super) fn archive(out: &mut Vec<u8>, id: u32) {
    put!(
        out,
        "<iq type='set' id='i{id}'><query xmlns='{}'><set xmlns='{}'><max>10</max><before/></set></query></iq>",
        ns::MAM,
        ns::RSM
    );
}

/// A message with its mark; the id names its number.
pub(super) fn message(out: &mut Vec<u8>, (to, kind): (&str, &str), body: &str, note: &MessageMark) {
    // Errors come back by the id: those of the room are of another kind.
    let prefix = if kind == "groupchat" { 'g' } else { 'm' };
    put!(out, "<message to='{to}' type='{kind}' id='{prefix}{}'><body>{body}</body>", note.number);
    note.write(out);
    put!(out, "</message>");
}

/// `show`: empty for a plain one.
pub(super) fn presence(out: &mut Vec<u8>, show: &str, note: &MessageMark) {
    put!(out, "<presence>");
    if !show.is_empty() {
        put!(out, "<show>{show}</show><status>change {}</status>", note.number);
    }
    note.write(out);
    put!(out, "</presence>");
}

/// To one user, contact or not.
pub(super) fn directed(out: &mut Vec<u8>, to: &str, note: &MessageMark) {
    put!(out, "<presence to='{to}'><status>for you</status>");
    note.write(out);
    put!(out, "</presence>");
}

/// `kind`: subscribe, subscribed and the like (RFC 6121 §3).
pub(super) fn subscription(out: &mut Vec<u8>, kind: &str, to: &str) {
    put!(out, "<presence type='{kind}' to='{to}'/>");
}

/// Nicks are whatever the operator says.
pub(super) fn join(out: &mut Vec<u8>, room: &str, nick: &str) {
    let nick = xmpp::xml::escape(nick);
    put!(out, "<presence to='{room}/{nick}'><x xmlns='{}'><history maxstanzas='0'/></x></presence>", ns::MUC);
}

pub(super) fn leave_room(out: &mut Vec<u8>, room: &str, nick: &str) {
    let nick = xmpp::xml::escape(nick);
    put!(out, "<presence to='{room}/{nick}' type='unavailable'/>");
}

/// For a user that is in the room.
pub(super) fn change_nick(out: &mut Vec<u8>, room: &str, nick: &str) {
    let nick = xmpp::xml::escape(nick);
    put!(out, "<presence to='{room}/{nick}'/>");
}

/// A room that was made by coming is locked until its owner says that it may be as it is (XEP-0045 §10.1.2).
pub(super) fn unlock(out: &mut Vec<u8>, room: &str) {
    put!(
        out,
        "<iq type='set' id='unlock' to='{room}'><query xmlns='{}'><x xmlns='{}' type='submit'/></query></iq>",
        ns::MUC_OWNER,
        ns::DATA
    );
}

/// An answer to what we are asked: yes to pushes and pings, no to all else.
pub(super) fn answer(out: &mut Vec<u8>, (id, to): (&str, Option<&str>), yes: bool) {
    let id = xmpp::xml::escape(id);
    let to = to.map_or_else(String::new, |to| format!(" to='{}'", xmpp::xml::escape(to)));
    if yes {
        put!(out, "<iq type='result' id='{id}'{to}/>");
    } else {
        put!(
            out,
            "<iq type='error' id='{id}'{to}><error type='cancel'><service-unavailable xmlns='{}'/></error></iq>",
            ns::STANZA_ERRORS
        );
    }
}

pub(super) fn unavailable(out: &mut Vec<u8>) {
    put!(out, "<presence type='unavailable'/>");
}

/// The end of the stream; a document ends a WebSocket (RFC 7395) or BOSH session.
pub(super) fn close(out: &mut Vec<u8>, is_document: bool) {
    if is_document {
        put!(out, "<close xmlns='{}'/>", ns::FRAMING);
    } else {
        put!(out, "</stream:stream>");
    }
}
