//! The shard's XMPP: gives inputs to the core (`with_xmpp`) and performs its effects at once (`grant_xmpp`): by the store, the account
//! cache, the router, threads that make keys, the farm and other shards. The result of an effect with an `id` comes back as an input
//! with the same `id`; one that is refused comes back at once (`Xmpp::refused`).

use std::rc::Rc;
use std::sync::Arc;

use ::xmpp::sasl::Secret;
use chat::{StoreFailure, StoreReply};
use chat_store::keys;
use router::AskId;
use stdx::Instant;
use store::access::AccessWrite;
use store::{Read, Service, StoreError, Ticket, Write};

use super::Shard;
use super::key_writer::{KeyWriter, KeysBusy, all_verifiers, learned};
use super::request_origin::of_xmpp;
use crate::message::{Command, InboxMessage, LocalMessage, LocalXmppMessage, ShardMessage};
use crate::xmpp::access::NewAccount;
use crate::xmpp::operator::{nodes, voicemail::Mailboxes};
use crate::xmpp::{Xmpp, XmppEffect};

/// The XMPP core of a shard and the resources that drive it.
pub(super) struct XmppAdapter {
    pub(super) xmpp: Xmpp,
    store: Arc<Service>,
    /// The shard's number, to which the store answers.
    sink: u16,
    keys: KeyWriter,
}

/// The store, or the thread pool for keys, takes nothing now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RequestRefused {
    id: u64,
}

impl XmppAdapter {
    pub(super) fn new(
        xmpp: Xmpp,
        store: Arc<Service>,
        sink: u16,
        outlet: cluster::Outlet<InboxMessage>,
    ) -> Self {
        XmppAdapter { xmpp, keys: KeyWriter::new(Arc::clone(&store), outlet), store, sink }
    }

    /// The mark of chat tells its tickets from those of the shard and the router.
    fn ticket(&self, id: u64) -> Ticket {
        Ticket { sink: self.sink, id: of_xmpp(id) }
    }

    fn read(&self, id: u64, read: Read) -> Result<(), RequestRefused> {
        self.store.read(read, self.ticket(id)).map_err(|_| RequestRefused { id })
    }

    /// Performs the effects that read and write.
    fn request(&self, now: Instant, effect: XmppEffect) -> Result<(), RequestRefused> {
        let refused = |id| move |KeysBusy| RequestRefused { id };
        match effect {
            XmppEffect::Read { id, read } => self.read(id, Read::Xmpp(read)),
            XmppEffect::Access { id, read } => self.read(id, Read::Access(read)),
            XmppEffect::Aliases { id, account } => self.read(id, Read::Aliases { account: Some(*account) }),
            XmppEffect::Write { id, write } => {
                self.store.write(write, self.ticket(id)).map_err(|_| RequestRefused { id })
            }
            XmppEffect::MakeAccount { id, account } => {
                let NewAccount { address, password, invitation } = *account;
                let make = move |password: &Secret| make_account(now, address, password, invitation);
                self.keys.write(self.ticket(id), password, make).map_err(refused(id))
            }
            XmppEffect::SetPassword { id, account, password } => {
                let make = move |password: &Secret| {
                    let (verifiers, account) = (all_verifiers(&account, password), *account);
                    Ok(Write::SetVerifiers { account, verifiers })
                };
                self.keys.write(self.ticket(id), password, make).map_err(refused(id))
            }
            XmppEffect::Prove { id, account, password, learns, stream } => {
                let make = move |password: &Secret| learned(&account, password, learns);
                let stream = self.xmpp.streams.get(stream).map(|stream| Rc::downgrade(&stream));
                let is_wanted = move || stream.as_ref().is_some_and(|stream| stream.strong_count() > 0);
                self.keys.write_if(is_wanted, self.ticket(id), password, make).map_err(refused(id))
            }
            XmppEffect::Derive { id, account, password } => {
                self.keys.derive(self.ticket(id), &account, password).map_err(refused(id))
            }
            // The shard performs the others.
            _ => Ok(()),
        }
    }

    /// Adds what waits for other shards to their queues: one message a shard and turn.
    pub(super) fn post(&mut self, queues: &mut [Vec<InboxMessage>]) {
        for (shard, queue) in queues.iter_mut().enumerate() {
            let messages = self.xmpp.take_post(shard);
            if !messages.is_empty() {
                queue.push(ShardMessage::Xmpp(messages).into());
            }
        }
    }
}

/// The write that registers an account. On a thread that makes keys: the digests and SCRAM keys of the password are computed here.
fn make_account(
    now: Instant,
    address: store::Address,
    password: &Secret,
    invitation: Option<[u8; 32]>,
) -> Result<Write, StoreError> {
    let mut account = store::NewAccount::with_password(address, &password.0, now)?;
    account.verifiers = account.verifiers.with_scram(&keys::make(&password.0));
    let account = Box::new(account);
    Ok(Write::Access(AccessWrite::Register { account, invitation }))
}

/// The time that a turn took tells whether the shard keeps up with sign-ins.
pub(super) fn note_turn(adapter: &mut Option<XmppAdapter>, began: Instant, ended: Instant) {
    if let Some(adapter) = adapter {
        let xmpp = &mut adapter.xmpp;
        xmpp.shedding.handle_turn(ended, ended.since(began), &mut xmpp.streams);
    }
}

impl Shard {
    /// Gives chat an input and performs its effects, which may be inputs of chat again. Does nothing without chat.
    pub(super) fn with_xmpp<T>(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut Xmpp, &mut Vec<XmppEffect>) -> T,
    ) -> Option<T> {
        let adapter = self.xmpp.as_mut()?;
        let mut outbox = std::mem::take(&mut self.scratch.xmpp_outbox);
        let done = act(&mut adapter.xmpp, &mut outbox);
        for _ in 0..adapter.xmpp.take_panics() {
            self.parts.board.count_panic();
        }
        for effect in outbox.drain(..) {
            self.grant_xmpp(now, effect);
        }
        self.scratch.xmpp_outbox = outbox;
        Some(done)
    }

    fn grant_xmpp(&mut self, now: Instant, effect: XmppEffect) {
        match effect {
            XmppEffect::Account { id, user, domain } => {
                self.find_account(now, AskId(of_xmpp(id)), user, domain);
            }
            XmppEffect::Phone(effect) => self.grant_phone(now, effect),
            XmppEffect::Accounts { id, ask } => {
                let own = self.parts.outlets[usize::from(self.parts.edge.shard)].clone();
                let operator = self.parts.chat.clone();
                answer_beside(id, own, async move { operator.administer(now, *ask).await });
            }
            XmppEffect::Act { id, action } => {
                let own = self.parts.outlets[usize::from(self.parts.edge.shard)].clone();
                let operator = self.parts.chat.clone();
                answer_beside(id, own, async move { nodes::act(&operator, *action).await });
            }
            XmppEffect::Calls { id, user, query } => {
                let own = self.parts.outlets[usize::from(self.parts.edge.shard)].clone();
                let operator = self.parts.chat.clone();
                answer_beside(id, own, async move { operator.calls_of(&user, query).await });
            }
            XmppEffect::Voicemail { id, user, request } => {
                let own = self.parts.outlets[usize::from(self.parts.edge.shard)].clone();
                let mailboxes = Mailboxes::new(&self.parts.chat);
                answer_beside(id, own, async move { mailboxes.perform(now, &user, request).await });
            }
            XmppEffect::Authenticate { id, query } => {
                let own = self.parts.outlets[usize::from(self.parts.edge.shard)].clone();
                let Some(adapter) = &self.xmpp else { return };
                crate::xmpp::authenticate(&adapter.xmpp, *query, answer_to(own, id));
            }
            XmppEffect::Bosh { shard, call } => {
                if let Some(post) = self.post.get_mut(usize::from(shard.shard)) {
                    post.push(LocalMessage::Xmpp(LocalXmppMessage::Bosh(call)).into());
                }
            }
            // The session has the account from now on.
            XmppEffect::LetGo { address } => self.reads.accounts().let_go(now, &address),
            XmppEffect::Forget { address } => {
                // Here at once: the next effect may ask for it.
                self.reads.accounts().forget(Some(&address));
                for outlet in &self.parts.outlets {
                    let forget = Command::ForgetAccount(Some(address.clone()));
                    outlet.answer_all(&mut vec![LocalMessage::Command(forget).into()]);
                }
            }
            request => {
                let Some(adapter) = &self.xmpp else { return };
                if let Err(RequestRefused { id }) = adapter.request(now, request) {
                    self.with_xmpp(now, |xmpp, outbox| xmpp.refused(now, id, outbox));
                }
            }
        }
    }
}

/// Posts the verdict of a source of sign-ins to the shard, from whichever thread it comes.
fn answer_to(shard: cluster::Outlet<InboxMessage>, id: u64) -> external_auth::Answer {
    external_auth::Answer::new(move |verdict| {
        let authenticated = LocalXmppMessage::Authenticated { id, verdict };
        shard.answer_all(&mut vec![LocalMessage::Xmpp(authenticated).into()]);
    })
}

/// Performs a request of the host beside the shard. The answer comes back as a message to the shard.
fn answer_beside(
    id: u64,
    shard: cluster::Outlet<InboxMessage>,
    answer: impl Future<Output = Result<StoreReply, StoreFailure>> + 'static,
) {
    tokio::task::spawn_local(async move {
        let administered = LocalXmppMessage::Administered { id, result: Box::new(answer.await) };
        shard.answer_all(&mut vec![LocalMessage::Xmpp(administered).into()]);
    });
}
