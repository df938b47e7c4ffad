//! Chat's data of accounts, for operators: read from the database, and changed as the account's own client would (`question`), so that its
//! clients and contacts are told.

use admin::ControlError;
use admin::chat::{Answer, Contact, User};
use chat::effect::HostAction;
use store::xmpp::{ArchiveQuery, UserRow, XmppLoaded, XmppRead};
use store::{Loaded, Read};
use xmpp::{Bare, Element, ns};

use super::{Operator, invalid};

impl Operator {
    /// The account of an address, which may be another name of it.
    pub(super) async fn account(&self, text: &str) -> Result<Bare, ControlError> {
        let bare = Bare::parse(text).map_err(|_| invalid("an account", text))?;
        let user = bare.local().ok_or_else(|| invalid("an account, as alice@example.net", text))?;
        let read = Read::Account { user: user.into(), domain: bare.domain().into() };
        match self.read(read).await? {
            Loaded::Account(Some(account)) => {
                Bare::new(Some(&account.name), &account.domain).map_err(|_| invalid("an account", text))
            }
            // An alias is answered with its account, so further questions go to the owner of the account's
            // address.
            _ => Err(ControlError::NotFound),
        }
    }

    async fn user_row(&self, user: &Bare) -> Result<Box<UserRow>, ControlError> {
        match self.read_chat(XmppRead::User { user: user.as_str().into(), nodes: &[] }).await? {
            XmppLoaded::User(row) => Ok(row),
            _ => Err(ControlError::Busy),
        }
    }

    /// Shows the account's figures: from its row, its archive and the hosts. The time of the last session is shown when there is none now.
    pub(super) async fn show_user(&self, user: &str) -> Result<Answer, ControlError> {
        let user = self.account(user).await?;
        let row = self.user_row(&user).await?;
        // Only the count is wanted, which comes with each page.
        let query = Box::new(ArchiveQuery { max: 1, ..ArchiveQuery::default() });
        let archive = XmppRead::Archive { owner: user.as_str().into(), query };
        let archived = match self.read_chat(archive).await? {
            // Beyond what is counted: at least so many.
            XmppLoaded::Page(page) => page.total.unwrap_or(store::limits::MAX_COUNTED.into()),
            _ => 0,
        };
        let jid = Some(user.clone().into_jid());
        // The number alone: `max` is of the sessions that are described.
        let sessions = self.act(HostAction::Sessions { jid, max: 0 }).await?.acted.count;
        Ok(Answer::User(User {
            address: user.to_string(),
            sessions,
            contacts: row.roster.iter().filter(|(_, item)| item.is_listed).count() as u64,
            blocked: row.blocked.iter().map(|jid| String::from(&**jid)).collect(),
            offline: row.offline.into(),
            archived,
            last_seen: row.last_seen.map(|(at, _)| at.unix_seconds()).filter(|_| sessions == 0),
        }))
    }

    /// As the account would (XEP-0013 §2.6).
    pub(super) async fn clear_offline(&self, user: &str) -> Result<Answer, ControlError> {
        let user = self.account(user).await?;
        let purge = Element::new("offline", ns::OFFLINE).child(Element::new("purge", ns::OFFLINE));
        match self.question((user.as_str(), &user), "set", purge).await {
            // Nothing waits.
            Ok(_) | Err(ControlError::NotFound) => Ok(Answer::Done),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn roster(&self, user: &str) -> Result<Answer, ControlError> {
        let user = self.account(user).await?;
        let roster = self.user_row(&user).await?.roster;
        let contacts = roster.into_iter().map(|(address, item)| Contact {
            address: address.into(),
            name: item.name.unwrap_or_default().into(),
            subscription: if item.subscription.is_empty() { "none".into() } else { item.subscription.into() },
            pending: item.ask,
            groups: item.groups.into_iter().map(String::from).collect(),
        });
        Ok(Answer::Roster(contacts.collect()))
    }

    /// As the account would (RFC 6121 §2.3): its clients are told.
    pub(super) async fn set_contact(
        &self,
        user: &str,
        (contact, name): (&str, &str),
        groups: &[String],
    ) -> Result<Answer, ControlError> {
        let group = |name: &String| Element::new("group", ns::ROSTER).text(name.as_str());
        let name = (!name.is_empty()).then_some(name);
        let item = Element::new("item", ns::ROSTER)
            .with("jid", contact)
            .with_opt("name", name)
            .children(groups.iter().map(group));
        self.change_roster(user, item).await
    }

    pub(super) async fn remove_contact(&self, user: &str, contact: &str) -> Result<Answer, ControlError> {
        let item = Element::new("item", ns::ROSTER).with("jid", contact).with("subscription", "remove");
        self.change_roster(user, item).await
    }

    async fn change_roster(&self, user: &str, item: Element) -> Result<Answer, ControlError> {
        let user = self.account(user).await?;
        let query = Element::new("query", ns::ROSTER).child(item);
        self.question((user.as_str(), &user), "set", query).await?;
        Ok(Answer::Done)
    }
}
