//! The registrations of a node, for its operator.

use cluster::Bucket;
use control::{Control as _, Failure, FailureKind, RegisteredAddress, RegistrationPage, RegistrationQuery};
use router::{Answer, RegisterRefused};
use stdx::Instant;
use store::{Address, Loaded, Read};
use tokio::sync::oneshot;

use super::operator::Operator;
use super::operator_status::binding_row;
use crate::message::{Command, LocalMessage, OperatorQuestion, RegisteredAddresses};

/// The registrations that this node knows, or reads from the database that it shares.
pub(super) struct Registrations<'a>(pub(super) &'a Operator);

impl Registrations<'_> {
    /// The registrations of an address that this node or another of its farm owns.
    pub(super) async fn of(&self, account: &Address) -> Vec<router::Binding> {
        let aor: Box<str> = account.to_string().into();
        // In a farm with one database the owner may be at another node, whose memory cannot be read; the rows
        // say the same.
        let is_shared = self.0.node.borrow().shared.config.shares_database();
        if is_shared { self.shared_bindings(self.0.now(), aor).await } else { self.own_bindings(aor).await }
    }

    /// The registrations of an address of this node alone.
    async fn own_bindings(&self, aor: Box<str>) -> Vec<router::Binding> {
        let (answer, bindings) = oneshot::channel();
        {
            let node = self.0.node.borrow();
            let owner = node.shared.map().owner(Bucket::of(&aor));
            let message = LocalMessage::Command(Command::Ask(OperatorQuestion::Bindings { aor, answer }));
            node.outlets[usize::from(owner.shard)].answer_all(&mut vec![message.into()]);
        }
        bindings.await.unwrap_or_default()
    }

    /// The registrations of an address that any node of the farm may own, as the database has them.
    async fn shared_bindings(&self, now: Instant, aor: Box<str>) -> Vec<router::Binding> {
        let bucket = Bucket::of(&aor).number();
        let rows = match self.0.read(Read::Bindings { bucket, aor }).await {
            Ok(Loaded::Bindings(rows)) => rows,
            Ok(_) => Vec::new(),
            Err(error) => {
                tracing::warn!(%error, "registrations could not be read");
                Vec::new()
            }
        };
        let read = |row: store::BindingRow| router::bindings_of_record(now, &row.record, &[]);
        // A row that cannot be read is left out; the log of its owner tells of it.
        rows.into_iter().filter_map(|row| read(row).ok()).flatten().collect()
    }

    /// A page of the registered addresses that the shards of this node own.
    pub(super) async fn page(&self, query: &RegistrationQuery) -> RegistrationPage {
        let ask = |answer| Command::Ask(OperatorQuestion::Registrations { query: query.clone(), answer });
        let now = self.0.now();
        let page = |RegisteredAddresses { addresses, total }| RegistrationPage {
            addresses: addresses
                .into_iter()
                .map(|(address, bindings)| RegisteredAddress {
                    address,
                    contacts: bindings.into_iter().map(|binding| binding_row(binding, now)).collect(),
                })
                .collect(),
            total: total as u64,
        };
        RegistrationPage::joined(self.0.ask_shards(ask).await.into_iter().map(page), query.limit)
    }

    /// Removes a binding at its owner, which answers once that is in the database.
    pub(super) async fn end(&self, account: &Address, contact: &str) -> Result<(), Failure> {
        let bound = self.of(account).await;
        // The whole contact is needed: the owner compares it as the registrar does (RFC 3261 §10.3).
        let Some(bound) = bound.into_iter().find(|binding| *binding.contact.uri == *contact) else {
            let message = format!("{account} has no registration of {contact}; it may have ended by itself");
            return Err(Failure::new(FailureKind::NotFound, message));
        };
        let (answer, answered) = oneshot::channel();
        let question = OperatorQuestion::EndRegistration {
            aor: account.to_string().into(),
            contact: Box::new(bound.contact),
            answer,
        };
        {
            let node = self.0.node.borrow();
            // Any shard finds the owner.
            let Some(outlet) = node.outlets.first() else { return Err(unavailable()) };
            outlet.answer_all(&mut vec![LocalMessage::Command(Command::Ask(question)).into()]);
        }
        match answered.await {
            // The owner answers once the removal is on disk.
            Ok(Answer::Registered(Ok(_))) => Ok(()),
            Ok(Answer::Registered(Err(RegisterRefused::StoreFailed))) => Err(Failure::new(
                FailureKind::Store,
                "the database could not be written; nothing was changed",
            )),
            Ok(_) | Err(_) => Err(unavailable()),
        }
    }
}

fn unavailable() -> Failure {
    Failure::new(FailureKind::Busy, "the owner of the address does not answer; try again")
}
