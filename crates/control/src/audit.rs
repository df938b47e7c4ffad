//! Lines of the audit log for changes over the control socket. The system says which user gave the command: the socket is open to the node's user and
//! to root, so the line tells these two apart, and the process.
//!
//! Only names are in a line: never a password, a text of a message, or what a value was.

use admin::chat::Ask;

use super::protocol::{FailureKind, Request};
use super::records::Change;

/// The change that a request makes: its action, and what it is about. `None`: it changes nothing, or only nodes make it.
pub(crate) fn change_of(request: &Request) -> Option<(&'static str, String)> {
    Some(match request {
        Request::Change(change) => of_record(change),
        Request::Chat(ask) => of_chat(ask)?,
        Request::AllNodes(request) => return change_of(request),
        Request::Reload => ("Reload", String::new()),
        Request::Drain => ("Drain", String::new()),
        Request::DrainFarmNode { name } => ("DrainFarmNode", name.to_string()),
        Request::EndRegistration { account, .. } => ("EndRegistration", account.to_string()),
        Request::LiftBlock { subject } => ("LiftBlock", subject.to_string()),
        Request::EndCall { call } => ("EndCall", call.to_string()),
        // The accounts of an import, which has written them itself.
        Request::PasswordsChanged(accounts) => ("SetPassword", format!("{} accounts", accounts.len())),
        Request::AccountsChanged => ("ImportAccounts", String::new()),
        Request::Hello(_)
        | Request::Status
        | Request::Trace { .. }
        | Request::Bindings { .. }
        | Request::OpenCalls { .. }
        | Request::CallMessages { .. }
        | Request::Registrations(_)
        | Request::RosterGroups(_)
        | Request::Blocks
        | Request::Farm
        | Request::FarmMap
        | Request::Ask(_)
        | Request::Live(_)
        | Request::Plan(_)
        | Request::ConfigReport
        | Request::PlanChanged { .. } => return None,
    })
}

fn of_record(change: &Change) -> (&'static str, String) {
    match change {
        Change::AddAccount { address, .. } => ("AddAccount", address.to_string()),
        Change::SetPassword { account, .. } => ("SetPassword", account.to_string()),
        Change::SetDisplayName { account, .. } => ("SetDisplayName", account.to_string()),
        Change::SetDisabled { account, .. } => ("SetDisabled", account.to_string()),
        Change::SetLimits { account, .. } => ("SetLimits", account.to_string()),
        Change::RemoveAccount { account } => ("RemoveAccount", account.to_string()),
        Change::AddDomain { name } => ("AddDomain", name.to_string()),
        Change::RemoveDomain { name } => ("RemoveDomain", name.to_string()),
        Change::AddAlias { alias, .. } => ("AddAlias", alias.to_string()),
        Change::RemoveAlias { alias } => ("RemoveAlias", alias.to_string()),
        Change::Invite { domain, .. } => ("Invite", domain.to_string()),
        Change::AddRoute { route, .. } => ("AddRoute", route.name.to_string()),
        Change::RemoveRoute { name } => ("RemoveRoute", name.to_string()),
    }
}

fn of_chat(ask: &Ask) -> Option<(&'static str, String)> {
    Some(match ask {
        Ask::End { who } => ("EndSessions", who.clone()),
        Ask::Announce { domain, .. } => ("Announce", domain.clone()),
        Ask::Message { to, .. } => ("Message", to.clone()),
        Ask::SetMotd { domain, .. } => ("SetMotd", domain.clone()),
        Ask::ClearMotd { domain } => ("ClearMotd", domain.clone()),
        Ask::MakeRoom { room, .. } => ("MakeRoom", room.clone()),
        Ask::DestroyRoom { room, .. } => ("DestroyRoom", room.clone()),
        Ask::Affiliation { room, .. } => ("SetAffiliation", room.clone()),
        Ask::KickOccupant { room, .. } => ("KickOccupant", room.clone()),
        Ask::ClearOffline { user } => ("ClearOffline", user.clone()),
        Ask::SetContact { user, .. } => ("SetContact", user.clone()),
        Ask::RemoveContact { user, .. } => ("RemoveContact", user.clone()),
        Ask::Roster { .. }
        | Ask::Sessions { .. }
        | Ask::Online { .. }
        | Ask::Motd { .. }
        | Ask::Rooms { .. }
        | Ask::Room { .. }
        | Ask::User { .. } => return None,
    })
}

/// A change that a command has made, or tried to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandAudit<'a> {
    /// The number of the local user that gave the command (`SO_PEERCRED`, unix(7)).
    pub uid: Option<u32>,
    /// The number of the process.
    pub pid: Option<i32>,
    /// The name of the change.
    pub action: &'static str,
    /// The account, domain, route or the like that it is about; may be empty.
    pub subject: &'a str,
    /// The kind of the failure, if the node refused it.
    pub refused: Option<FailureKind>,
}

#[cfg(test)]
mod tests {
    use super::super::records::Secret;
    use super::*;

    #[test]
    fn a_change_has_its_action_and_subject_and_no_secret() {
        let account = store::Address::parse("alice@example.test", None).unwrap();
        let change = Change::SetPassword { account, password: Secret::new("hush") };
        let (action, subject) = change_of(&Request::Change(change)).unwrap();
        assert_eq!((action, &*subject), ("SetPassword", "alice@example.test"));
        let all = Request::AllNodes(Box::new(Request::EndCall { call: "CA1".into() }));
        assert_eq!(change_of(&all), Some(("EndCall", "CA1".to_owned())));
        assert_eq!(change_of(&Request::Status), None);
    }
}
