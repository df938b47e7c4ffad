//! Commands (XEP-0050) of administrators (XEP-0133): signed-in users, announcements, the message of the day,
//! the end of a session.
//!
//! A command is a function from the submitted form to a [`CommandEffect`]; `effect` performs it at the host, and the replies of
//! the store and of the hosts go into the effect's continuation. The forms that are being filled in are held here, bounded in
//! number and time; a command itself holds nothing between two requests.

mod effect;

use std::collections::HashMap;
use std::time::Duration;

use stdx::Instant;
use stdx::cache::Cache;
use stdx::rng::Rng;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

pub(super) use self::effect::{CommandEffect, CommandResult, from_domain, send_motd};
use super::effect::{HostAction, OnlineFilter};
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};
use super::iq_effect::{EffectReply, IqEffect};
use super::store_requests::StoreRequests;
use super::{HostSettings, Outbox};
use crate::{limits, token};

const FILE: &str = "crates/chat/src/commands.rs";

pub(super) const FEATURE: Feature = Feature {
    specifications: &[
        Specification {
            name: "XEP-0050",
            title: "Ad-Hoc Commands",
            version: "1.3.0",
            level: Level::Complete,
            file: FILE,
            note: "commands have one form at most",
        },
        Specification {
            name: "XEP-0133",
            title: "Service Administration",
            version: "1.3.1",
            level: Level::Partial,
            file: FILE,
            note: "no lists of users to block (§4.11, §4.12), no welcome message (§4.27, §4.28); administrators, restart and \
                   shutdown are the operator's (§4.29 to §4.31)",
        },
    ],
    account: &[],
    server: &[ns::COMMANDS],
    handles: &[IqHandler {
        at: IqTarget::Server,
        name: "command",
        ns: ns::COMMANDS,
        run: |_, _| IqReply::Perform(IqEffect::Command),
    }],
};

/// The time for which a form may stay unanswered. Later submissions get `session-expired`. Beyond
/// `limits::COMMANDS` open forms one that was not used lately is forgotten earlier.
const PATIENCE: Duration = Duration::from_secs(600);

/// The beginning of all nodes of XEP-0133.
const PREFIX: &str = "http://jabber.org/protocol/admin#";

/// A field of a form: name, type, label, and whether a value is required.
pub(super) type Field = (&'static str, &'static str, &'static str, bool);

/// A node's rest, its name, and the fields of its form.
pub(super) struct Command {
    /// The node without the prefix of XEP-0133.
    pub(super) node: &'static str,
    pub(super) name: &'static str,
    /// None: the command runs at the first request, without a form.
    pub(super) fields: &'static [Field],
    /// The first step, from the submitted form.
    pub(super) run: fn(&Form) -> CommandResult,
}

/// The commands that need no account's data; `administration` has those about accounts. The order is that of
/// service discovery.
const COMMANDS: &[Command] = &[
    Command {
        node: "announce",
        name: "Send an announcement to users online",
        fields: &[SUBJECT, ("announcement", "text-multi", "Text", true)],
        run: announce,
    },
    Command { node: "delete-motd", name: "Delete the message of the day", fields: &[], run: delete_motd },
    Command { node: EDIT_MOTD, name: "Change the message of the day", fields: DAY, run: edit_motd },
    Command {
        node: "end-user-session",
        name: "End sessions of users",
        fields: &[("accountjids", "jid-multi", "Addresses of users or sessions", true)],
        run: end_sessions,
    },
    Command { node: "get-online-users-list", name: "List users online", fields: MAX, run: list_online },
    Command { node: "get-online-users-num", name: "Count users online", fields: &[], run: count_online },
    Command { node: "set-motd", name: "Set the message of the day, and send it", fields: DAY, run: set_motd },
];

/// A field that no form of XEP-0133 has: its name says so, as XEP-0068 §3.3 has it.
const SUBJECT: Field = ("{urn:belfry:admin}subject", "text-single", "Subject", false);

/// The fields of a message of the day (§4.24 and §4.25).
const DAY: &[Field] = &[SUBJECT, ("motd", "text-multi", "Text", true)];

/// The field of lists (§4.18 to §4.22). Its value `none` is as many as one answer may have.
pub(super) const MAX: &[Field] = &[("max_items", "list-single", "How many at most", false)];

/// The options of `max_items` (§4.18).
const MAX_ITEMS: [&str; 7] = ["25", "50", "75", "100", "150", "200", "none"];

/// The node and the item of a domain's message of the day in the store.
const MOTD: &str = "motd";
const EDIT_MOTD: &str = "edit-motd";
const CURRENT: &str = "current";

/// Forms that are being filled in, and messages of the day by domain.
pub(super) struct Commands {
    /// Forms that wait, by the id of the command's session: its opener and the command. Bounded, as each
    /// costs memory.
    open: Cache<Box<str>, (Jid, &'static str)>,
    /// `None` inside: it was read, and there is none.
    motd: HashMap<Box<str>, Option<Element>>,
}

impl Default for Commands {
    fn default() -> Commands {
        Commands { open: Cache::new(limits::COMMANDS), motd: HashMap::new() }
    }
}

impl Commands {
    /// The message of the day of a domain has changed.
    pub(super) fn handle_motd(&mut self, domain: Box<str>, message: Option<Element>) {
        self.motd.insert(domain, message);
    }
}

/// The values of a form's fields.
type Values = Vec<(Box<str>, Vec<Box<str>>)>;

/// A command that is run, with the submitted values. It travels through all steps of the command.
#[derive(Clone)]
pub(super) struct Form {
    /// The request that the command's end answers.
    pub(super) iq: Element,
    /// The domain that the command was sent to, and whose accounts it is about.
    pub(super) domain: Bare,
    node: Box<str>,
    /// The `sessionid` of the command (XEP-0050).
    session: Box<str>,
    values: Values,
}

/// An error with the condition that XEP-0050 §4.4 has for it.
fn fault(condition: Condition, detail: &'static str) -> StanzaError {
    StanzaError::from(condition).with(Element::new(detail, ns::COMMANDS))
}

/// The stage to which a request brings its command.
enum CommandStage {
    /// The form is to be filled in, or the command is canceled.
    Reply(Element),
    /// The command has all that it needs.
    Run(Form, CommandEffect),
}

impl Commands {
    /// Handles a command to a domain: an invitation, or an administrator's command.
    pub(super) fn handle(
        &mut self,
        view: &IqView<'_>,
        (store, rng): (&mut StoreRequests, &mut Rng),
        iq: &IqRequest<'_>,
        out: &mut Outbox,
    ) -> EffectReply {
        // Invitations are commands of all users, so they come before the check for administrators.
        if let Some(reply) = super::invite::command(view, (store, rng), iq, out) {
            return reply;
        }
        match self.handle_request(view.now, (view.settings, rng), iq)? {
            CommandStage::Reply(payload) => Ok(Some(payload)),
            CommandStage::Run(form, effect) => {
                effect::perform(store, view.now, form, Ok(effect), out);
                Ok(None)
            }
        }
    }

    /// A request of an administrator. XEP-0050 §4.4 has the errors.
    fn handle_request(
        &mut self,
        now: Instant,
        (settings, rng): (&HostSettings, &mut Rng),
        iq: &IqRequest<'_>,
    ) -> Result<CommandStage, StanzaError> {
        // XEP-0133: only administrators. Before all else, so that others do not learn which commands there are.
        if !settings.is_admin(iq.from) {
            return Err(Condition::Forbidden.into());
        }
        if !iq.is_set {
            return Err(Condition::BadRequest.into());
        }
        let node = iq.payload.attr("node").unwrap_or_default();
        let known = find(node).ok_or_else(|| StanzaError::from(Condition::ItemNotFound))?;
        let action = iq.payload.attr("action").unwrap_or("execute");
        if !matches!(action, "execute" | "complete" | "cancel" | "next" | "prev") {
            return Err(fault(Condition::BadRequest, "malformed-action"));
        }
        let Some(session) = iq.payload.attr("sessionid") else {
            // A command without a session begins, and only `execute` begins one (XEP-0050 §3.1).
            if action != "execute" {
                return Err(fault(Condition::BadRequest, "bad-action"));
            }
            let session: Box<str> = token(rng)[..16].into();
            if known.fields.is_empty() {
                let form = Form::new(iq, node, &session, Vec::new());
                return (known.run)(&form).map(|effect| CommandStage::Run(form, effect));
            }
            self.open.insert_until(now + PATIENCE, session.clone(), (iq.from.clone(), known.node));
            if known.node == EDIT_MOTD {
                let form = Form::new(iq, node, &session, Vec::new());
                return Ok(CommandStage::Run(form, CommandEffect::FillInMotd(known)));
            }
            return Ok(CommandStage::Reply(known.ask(node, &session, None)));
        };
        let open = self.open.get(session);
        // A session of a command is its opener's: another administrator who guesses its id cannot go on with it.
        if open.is_none_or(|(opener, open)| opener != iq.from || *open != known.node) {
            return Err(fault(Condition::BadRequest, "bad-sessionid"));
        }
        if self.open.get_at(now, session).is_none() {
            self.open.remove(session);
            return Err(fault(Condition::NotAllowed, "session-expired"));
        }
        match action {
            "cancel" => {
                self.open.remove(session);
                Ok(CommandStage::Reply(status(node, session, "canceled")))
            }
            // There is but one form.
            "next" | "prev" => Err(fault(Condition::BadRequest, "bad-action")),
            _ => {
                let values = known.read(iq.payload)?;
                self.open.remove(session);
                let form = Form::new(iq, node, session, values);
                (known.run)(&form).map(|effect| CommandStage::Run(form, effect))
            }
        }
    }
}

/// The command of a node.
fn find(node: &str) -> Option<&'static Command> {
    let rest = node.strip_prefix(PREFIX)?;
    all().find(|command| command.node == rest)
}

/// The commands of both tables.
fn all() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().chain(super::administration::COMMANDS)
}

/// A command in that state (XEP-0050 §3.4).
fn status(node: &str, session: &str, status: &'static str) -> Element {
    Element::new("command", ns::COMMANDS).with("node", node).with("sessionid", session).with("status", status)
}

/// A field of a form of XEP-0133.
pub(super) fn field(var: &str, kind: &str) -> Element {
    Element::new("field", ns::DATA).with("var", var).with("type", kind)
}

/// One value of a field.
pub(super) fn value(text: &str) -> Element {
    Element::new("value", ns::DATA).text(text)
}

/// A form of XEP-0133 of that type, with its FORM_TYPE.
pub(super) fn form(kind: &'static str) -> Element {
    let of_type = field("FORM_TYPE", "hidden").child(value(ns::ADMIN));
    Element::new("x", ns::DATA).with("type", kind).child(of_type)
}

impl Command {
    /// The form; its text and subject are those of `current`, if there is one.
    fn ask(&self, node: &str, session: &str, current: Option<&Element>) -> Element {
        let complete = Element::new("complete", ns::COMMANDS);
        let actions = Element::new("actions", ns::COMMANDS).with("execute", "complete").child(complete);
        let title = Element::new("title", ns::DATA).text(self.name);
        let fields = self.fields.iter().map(|(var, kind, label, is_required)| {
            let required = is_required.then(|| Element::new("required", ns::DATA));
            let options: &[&str] = if *kind == "list-single" { &MAX_ITEMS } else { &[] };
            let options = options
                .iter()
                .map(|option| Element::new("option", ns::DATA).with("label", *option).child(value(option)));
            let values = current.into_iter().flat_map(|message| values_of(var, message));
            field(var, kind).with("label", *label).children(required).children(values).children(options)
        });
        let form = form("form").child(title).children(fields);
        status(node, session, "executing").child(actions).child(form)
    }

    /// The values of the submitted form, whose required fields have one. Fields that the command does not
    /// know are kept and ignored.
    fn read(&self, payload: &Element) -> Result<Values, StanzaError> {
        let bad = || fault(Condition::BadRequest, "bad-payload");
        let form = payload.get("x", ns::DATA).filter(|form| form.attr("type") == Some("submit"));
        let fields = form.ok_or_else(bad)?.elements().filter(|child| child.is("field", ns::DATA));
        let values: Values = fields
            .filter_map(|field| {
                let values = field.elements().filter(|child| child.is("value", ns::DATA));
                let values = values.map(Element::content).filter(|text| !text.is_empty());
                let values = values.map(Box::from);
                Some((field.attr("var")?.into(), values.collect()))
            })
            .collect();
        for (var, _, _, is_required) in self.fields {
            let has = values.iter().any(|(known, values)| **known == **var && !values.is_empty());
            if *is_required && !has {
                return Err(bad());
            }
        }
        Ok(values)
    }
}

/// The values of a field for a message of the day: a value for each line of its text.
fn values_of(var: &str, message: &Element) -> Vec<Element> {
    let name = if var == SUBJECT.0 { "subject" } else { "body" };
    let text = message.content_of(name, ns::CLIENT);
    text.iter().flat_map(|text| text.lines()).map(value).collect()
}

impl Form {
    fn new(iq: &IqRequest<'_>, node: &str, session: &str, values: Values) -> Form {
        Form { iq: iq.iq.clone(), domain: iq.to.bare(), node: node.into(), session: session.into(), values }
    }

    /// The values of a field, none if the form lacks it.
    pub(super) fn of(&self, var: &str) -> &[Box<str>] {
        let found = self.values.iter().find(|(known, _)| **known == *var);
        found.map(|(_, values)| &values[..]).unwrap_or_default()
    }

    /// The answer of a completed command.
    pub(super) fn done(&self) -> Element {
        status(&self.node, &self.session, "completed")
    }

    /// The same with a text for the administrator.
    fn note(&self, text: &str) -> Element {
        self.done().child(Element::new("note", ns::COMMANDS).with("type", "info").text(text))
    }

    /// `max_items`: as many as an answer may have where it says nothing.
    ///
    /// # Errors
    /// §4.18: "the max_items value is unacceptable".
    pub(super) fn max_items(&self) -> Result<u32, StanzaError> {
        let asked = match self.of("max_items").first().map(|text| &**text) {
            None | Some("none") => limits::ONLINE_LIST,
            Some(text) => text.parse().map_err(|_| {
                StanzaError::new(Condition::NotAcceptable, "max_items is neither a number nor none")
            })?,
        };
        Ok(asked.min(limits::ONLINE_LIST))
    }

    /// The message for users, without an address.
    fn message(&self, text: &str) -> Element {
        let subject = self.of(SUBJECT.0).first().or_else(|| self.of("subject").first());
        let subject = subject.map(|text| Element::new("subject", ns::CLIENT).text(text.clone()));
        Element::new("message", ns::CLIENT)
            .with("type", "headline")
            .with("from", self.domain.as_str())
            .children(subject)
            .child(Element::new("body", ns::CLIENT).text(self.of(text).join("\n")))
    }
}

fn count_online(form: &Form) -> CommandResult {
    count_users(form, OnlineFilter::All, "onlineusersnum")
}

fn list_online(form: &Form) -> CommandResult {
    list_users(form, OnlineFilter::All, "onlineuserjids")
}

/// §4.23: to all that are signed in now, not stored for others.
fn announce(form: &Form) -> CommandResult {
    let action = HostAction::Announce {
        domain: form.domain.domain().into(),
        message: Box::new(form.message("announcement")),
    };
    Ok(CommandEffect::act(action, |form, acted| Ok(form.note(&format!("sent to {} sessions", acted.count)))))
}

/// §4.6. `item-not-found` when no session was meant, so that a mistyped address is noticed.
fn end_sessions(form: &Form) -> CommandResult {
    let jids: Result<Vec<Jid>, _> = form.of("accountjids").iter().map(|jid| Jid::parse(jid)).collect();
    let Ok(jids) = jids else { return Err(Condition::JidMalformed.into()) };
    if jids.iter().any(|jid| jid.domain() != form.domain.domain()) {
        return Err(StanzaError::new(Condition::NotAllowed, "not an address of this domain"));
    }
    Ok(CommandEffect::act(HostAction::End { jids }, |form, acted| match acted.count {
        0 => Err(Condition::ItemNotFound.into()),
        count => Ok(form.note(&format!("ended {count} sessions"))),
    }))
}

fn set_motd(form: &Form) -> CommandResult {
    Ok(CommandEffect::WriteMotd { message: Some(form.message("motd")), is_sent: true })
}

fn edit_motd(form: &Form) -> CommandResult {
    Ok(CommandEffect::WriteMotd { message: Some(form.message("motd")), is_sent: false })
}

fn delete_motd(_form: &Form) -> CommandResult {
    Ok(CommandEffect::WriteMotd { message: None, is_sent: false })
}

/// Nodes of commands with their names, for clients that may run them (XEP-0050 §2.3).
pub(super) fn list_commands(
    settings: &HostSettings,
    from: &Jid,
) -> Option<impl Iterator<Item = (String, &'static str)>> {
    let all = || all().map(|command| (format!("{PREFIX}{}", command.node), command.name));
    settings.is_admin(from).then(all)
}

pub(super) fn describe_command(settings: &HostSettings, from: &Jid, node: &str) -> Option<Element> {
    let known = find(node).filter(|_| settings.is_admin(from))?;
    let identity = Element::new("identity", ns::DISCO_INFO)
        .with("category", "automation")
        .with("type", "command-node")
        .with("name", known.name);
    let feature = |var: &str| Element::new("feature", ns::DISCO_INFO).with("var", var);
    let query = Element::new("query", ns::DISCO_INFO).with("node", node).child(identity);
    Some(query.child(feature(ns::COMMANDS)).child(feature(ns::DATA)))
}

/// The list of users with an available session (§4.20 to §4.22), each once whatever the number of its sessions.
pub(super) fn list_users(form: &Form, filter: OnlineFilter, var: &'static str) -> CommandResult {
    let max = form.max_items()?;
    let action = HostAction::Online { domain: form.domain.domain().into(), filter, max };
    Ok(CommandEffect::act(action, move |form, acted| {
        let mut users = acted.users;
        users.sort();
        let shown = users.iter().take(max as usize).map(|user| value(user.as_str()));
        let list = field(var, "jid-multi").children(shown);
        Ok(form.done().child(self::form("result").child(list)))
    }))
}

/// The number of users (§4.15 to §4.17).
pub(super) fn count_users(form: &Form, filter: OnlineFilter, var: &'static str) -> CommandResult {
    let action = HostAction::Online { domain: form.domain.domain().into(), filter, max: 0 };
    Ok(CommandEffect::act(action, move |form, acted| {
        let count = field(var, "text-single").child(value(&acted.count.to_string()));
        Ok(form.done().child(self::form("result").child(count)))
    }))
}
