//! The connection of one node to the council: joins, renews, watches, and starts over after a fault.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::jetstream::kv::{self, Operation};
use async_nats::jetstream::stream;
use async_nats::{ConnectOptions, Event, jetstream};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::keys::{DRAIN, Fault, JoinRefused, Keys, MAP, Swap, life_of, marked};
use super::{CouncilCommand, CouncilEvent, CouncilSettings, REQUEST_TIMEOUT, RETRY_PAUSE};

/// Attempts, half a second apart, to take the node's name: the node's life before may have been killed a moment ago.
const NAME_ATTEMPTS: u32 = 30;

/// The time for making a watch, and for one command with its answer: several requests.
const WATCH: Duration = Duration::from_secs(3);
const COMMAND: Duration = Duration::from_secs(4);

/// Renewals that succeeded and that the watch did not show, after which it counts as broken.
const UNSEEN: u32 = 3;

/// One node's side of the council.
struct Connection {
    settings: CouncilSettings,
    commands: mpsc::Receiver<CouncilCommand>,
    events: mpsc::Sender<CouncilEvent>,
    client: async_nats::Client,
    /// True while the client is connected to a server.
    connected: watch::Receiver<bool>,
    life: u32,
    /// The revision of the own key, after which the next renewal is made; 0 when the council has forgotten the key.
    revision: u64,
    is_away: bool,
}

/// The reason that a session with the council ended.
enum SessionEnd {
    /// The node leaves, or nothing sends commands any more.
    Left,
    /// The own key is not there any more. The council may have lost all keys, and a watch of the lost ones shows no others.
    Forgotten,
    Refused(JoinRefused),
}

pub(super) async fn run(
    settings: CouncilSettings,
    value: impl Fn(u32) -> Bytes,
    commands: mpsc::Receiver<CouncilCommand>,
    events: mpsc::Sender<CouncilEvent>,
) {
    let mut reported = None;
    let (client, connected) = loop {
        match connect(&settings).await {
            Ok(connection) => break connection,
            Err(reason) if reported.as_ref() == Some(&reason) => {}
            Err(reason) => {
                reported = Some(reason.clone());
                // The receiver may have gone: the node ends.
                if events.send(CouncilEvent::Away { reason }).await.is_err() {
                    return;
                }
            }
        }
        sleep(RETRY_PAUSE).await;
    };
    let is_away = reported.is_some();
    let connection =
        Connection { settings, commands, events, client, connected, life: 0, revision: 0, is_away };
    connection.run(value).await;
}

/// The client, and a flag that is true while it is connected.
pub(crate) async fn connect(
    settings: &CouncilSettings,
) -> Result<(async_nats::Client, watch::Receiver<bool>), Fault> {
    let (is_connected, connected) = watch::channel(true);
    let text = |error: &dyn std::fmt::Display| Fault::from(error.to_string());
    let mut options = ConnectOptions::new()
        .name(format!("belfry {}", settings.node))
        .connection_timeout(REQUEST_TIMEOUT)
        .request_timeout(Some(REQUEST_TIMEOUT))
        .ping_interval(Duration::from_secs(2))
        .event_callback(move |event| {
            match event {
                Event::Connected => drop(is_connected.send_replace(true)),
                Event::Disconnected => drop(is_connected.send_replace(false)),
                _ => {}
            }
            std::future::ready(())
        })
        .reconnect_delay_callback(|attempts| {
            Duration::from_millis(100 * u64::try_from(attempts.min(10)).unwrap_or(10))
        });
    if let Some(file) = &settings.credentials {
        let credentials = std::fs::read_to_string(file)
            .map_err(|error| Fault::from(format!("cannot read {}: {error}", file.display())))?;
        options = options.credentials(&credentials).map_err(|error| text(&error))?;
    }
    if let Some(file) = &settings.authorities {
        options = options.add_root_certificates(file.clone()).require_tls(true);
    }
    // The client does not read them from a list of addresses.
    let addresses =
        settings.servers.iter().filter_map(|server| server.parse::<async_nats::ServerAddr>().ok());
    if let Some(address) = addresses.into_iter().find(async_nats::ServerAddr::has_user_pass) {
        let (user, password) =
            (address.username().unwrap_or_default(), address.password().unwrap_or_default());
        options = options.user_and_password(user.to_owned(), password.to_owned());
    }
    let client = options.connect(settings.servers.as_slice()).await.map_err(|error| text(&error))?;
    Ok((client, connected))
}

/// The next command: those that wait already come first.
async fn next(
    waiting: &mut VecDeque<CouncilCommand>,
    commands: &mut mpsc::Receiver<CouncilCommand>,
) -> Option<CouncilCommand> {
    match waiting.pop_front() {
        Some(command) => Some(command),
        None => commands.recv().await,
    }
}

/// A watch of all keys of a store. The client has no limit of its own for making one, and waits for ever when the answer is lost.
pub(crate) async fn watch_all(store: &kv::Store) -> Result<kv::Watch, Fault> {
    let watch = timeout(WATCH, store.watch_with_history(">"));
    let watch = watch.await.map_err(|_| "a watch of keys was not answered")?;
    watch.map_err(|error| error.to_string().into())
}

/// A key-value store of the farm, made if there is none.
///
/// COMPAT(nats-server 2.9): the client's own way to make a store asks for the account's figures, which it cannot read
/// from this release. A store is a stream of a known form (NATS ADR-8).
pub(crate) async fn open_store(
    context: &jetstream::Context,
    settings: &CouncilSettings,
    suffix: &str,
    max_age: Duration,
) -> Result<kv::Store, Fault> {
    let bucket = format!("{}-{suffix}", settings.farm);
    if let Ok(store) = context.get_key_value(&bucket).await {
        return Ok(store);
    }
    let stream = stream::Config {
        name: format!("KV_{bucket}"),
        subjects: vec![format!("$KV.{bucket}.>")],
        description: Some("a farm of Belfry".to_owned()),
        max_messages_per_subject: 1,
        max_age,
        storage: stream::StorageType::File,
        discard: stream::DiscardPolicy::New,
        num_replicas: settings.replicas,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        // The server wants it no longer than the age of the messages.
        duplicate_window: if max_age.is_zero() { Duration::from_secs(120) } else { max_age },
        ..stream::Config::default()
    };
    let fault = |error: &dyn std::fmt::Display| Fault::from(error.to_string());
    context.get_or_create_stream(stream).await.map_err(|error| fault(&error))?;
    context.get_key_value(&bucket).await.map_err(|error| fault(&error))
}

impl Connection {
    async fn run(mut self, value: impl Fn(u32) -> Bytes) {
        loop {
            match self.session(&value).await {
                Ok(SessionEnd::Left) => return,
                Ok(SessionEnd::Forgotten) => {}
                Ok(SessionEnd::Refused(refused)) => {
                    self.tell(CouncilEvent::Refused(refused)).await;
                    return;
                }
                Err(reason) => {
                    self.lose(reason).await;
                    if self.events.is_closed() {
                        return;
                    }
                    sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    /// Waits until a server is connected; false when nothing reads the events any more.
    async fn is_connected(&mut self) -> bool {
        tokio::select! {
            // The client has the sender.
            connected = self.connected.wait_for(|connected| *connected) => connected.is_ok(),
            () = self.events.closed() => false,
        }
    }

    /// From opening the stores to the first fault.
    async fn session(&mut self, value: &impl Fn(u32) -> Bytes) -> Result<SessionEnd, Fault> {
        if !self.is_connected().await {
            return Ok(SessionEnd::Left);
        }
        let keys = self.open().await?;
        if let Err(refused) = keys.check_secret(&self.settings.proof).await? {
            return Ok(SessionEnd::Refused(refused));
        }
        let is_return = self.life != 0;
        if is_return {
            keys.raise_life(self.life).await?;
        }
        if !is_return && let Err(refused) = self.join(&keys, value).await? {
            return Ok(SessionEnd::Refused(refused));
        }
        let text = |error: &dyn std::fmt::Display| Fault::from(error.to_string());
        let (mut members, mut state) = (watch_all(&keys.members).await?, watch_all(&keys.state).await?);
        let mut waiting = self.begin_watch(is_return).await;
        let mut connected = self.connected.clone();
        // The node's own renewals come back by the watch.
        let mut unseen = 0;
        loop {
            if unseen > UNSEEN {
                return Err("the watch of the members is silent".into());
            }
            // A renewal waits for nothing that there is to read: the watches may always have more.
            if let Some(renewal) = self.next_renewal(&mut waiting) {
                unseen += 1;
                if let Some(end) = self.obey_while_connected(&keys, renewal).await? {
                    return Ok(end);
                }
                continue;
            }
            tokio::select! {
                // A map is read after the announcements that were written before it.
                biased;
                lost = connected.wait_for(|connected| !connected) => {
                    lost.map_err(|error| text(&error))?;
                    return Err("the connection was lost".into());
                }
                entry = members.next() => {
                    let entry = entry.ok_or("the watch of the members ended")?.map_err(|error| text(&error))?;
                    unseen = 0;
                    self.note_member(entry).await;
                }
                entry = state.next() => {
                    let entry = entry.ok_or("the watch of the map ended")?.map_err(|error| text(&error))?;
                    self.note_state(entry).await;
                }
                command = next(&mut waiting, &mut self.commands) => {
                    let Some(command) = command else { return Ok(SessionEnd::Left) };
                    unseen += u32::from(command.is_renewal());
                    if let Some(end) = self.obey_while_connected(&keys, command).await? {
                        return Ok(end);
                    }
                }
            }
        }
    }

    /// Tells of a watch that begins; the commands that still count.
    async fn begin_watch(&mut self, is_return: bool) -> VecDeque<CouncilCommand> {
        self.recover().await;
        if !is_return {
            return VecDeque::new();
        }
        self.tell(CouncilEvent::WatchBegun).await;
        self.commands_of_now()
    }

    /// The waiting commands that still count. Of those that came while the council was away the machine repeats all others, and
    /// takes no answer that is late.
    fn commands_of_now(&mut self) -> VecDeque<CouncilCommand> {
        let (mut announcement, mut renewal, mut withdrawal) = (None, None, None);
        while let Ok(command) = self.commands.try_recv() {
            match command {
                CouncilCommand::Announce { .. } => announcement = Some(command),
                CouncilCommand::Renew { .. } => renewal = Some(command),
                CouncilCommand::Withdraw => withdrawal = Some(command),
                _ => {}
            }
        }
        announcement.into_iter().chain(renewal).chain(withdrawal).collect()
    }

    /// The first waiting write of the own key. Commands that came meanwhile wait behind the others.
    fn next_renewal(&mut self, waiting: &mut VecDeque<CouncilCommand>) -> Option<CouncilCommand> {
        while let Ok(command) = self.commands.try_recv() {
            waiting.push_back(command);
        }
        // An announcement that takes the name again has to come before the renewals that follow it.
        let place = waiting.iter().position(CouncilCommand::is_renewal)?;
        waiting.remove(place)
    }

    /// Performs a command, and gives up when the connection is lost: its answer would not come.
    async fn obey_while_connected(
        &mut self,
        keys: &Keys,
        command: CouncilCommand,
    ) -> Result<Option<SessionEnd>, Fault> {
        let mut connected = self.connected.clone();
        tokio::select! {
            obeyed = timeout(COMMAND, self.obey(keys, command)) => {
                obeyed.map_err(|_| "the council does not answer")?
            }
            _ = connected.wait_for(|connected| !connected) => Err("the connection was lost".into()),
        }
    }

    async fn open(&self) -> Result<Keys, Fault> {
        let mut context = jetstream::new(self.client.clone());
        context.set_timeout(REQUEST_TIMEOUT);
        Ok(Keys {
            members: open_store(&context, &self.settings, "members", self.settings.member_age).await?,
            state: open_store(&context, &self.settings, "state", Duration::ZERO).await?,
        })
    }

    /// Draws a life and takes the node's name.
    async fn join(
        &mut self,
        keys: &Keys,
        value: &impl Fn(u32) -> Bytes,
    ) -> Result<Result<(), JoinRefused>, Fault> {
        let life = keys.draw_life(&*self.settings.clock.0).await?;
        let value = value(life);
        let (mut holder, mut attempts) = (None, 0);
        loop {
            attempts += 1;
            match keys.take_name(&self.settings.node, life, &value).await? {
                Ok(revision) => {
                    (self.life, self.revision) = (life, revision);
                    self.tell(CouncilEvent::Joined { life }).await;
                    return Ok(Ok(()));
                }
                Err(by) if attempts == NAME_ATTEMPTS => return Ok(Err(JoinRefused::NameTaken { by })),
                Err(by) => {
                    let renewed = keys.holder(&self.settings.node).await?;
                    match (holder, renewed) {
                        // The key is renewed while this node waits: its holder lives.
                        (Some(before), Some(now)) if before != now => {
                            return Ok(Err(JoinRefused::NameTaken { by }));
                        }
                        _ => holder = renewed,
                    }
                    sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    /// Performs a command; the end of the session if it is the last.
    async fn obey(&mut self, keys: &Keys, command: CouncilCommand) -> Result<Option<SessionEnd>, Fault> {
        match command {
            CouncilCommand::Renew { token, value } => return self.renew(keys, token, &value).await,
            CouncilCommand::Announce { value } => {
                match keys.take_name(&self.settings.node, self.life, &value).await? {
                    Ok(revision) => self.revision = revision,
                    Err(by) => self.tell(CouncilEvent::Superseded { by }).await,
                }
            }
            CouncilCommand::SwapMap { expected, value } => {
                let revision = match keys.swap_map(value, expected).await? {
                    Swap::Done(revision) => Some(revision),
                    Swap::Refused => None,
                };
                self.tell(CouncilEvent::Swapped { revision }).await;
            }
            CouncilCommand::ReadMembers => {
                for node in keys.nodes().await? {
                    if let Some(entry) = keys.member(&node).await? {
                        self.note_member(entry).await;
                    }
                }
                self.tell(CouncilEvent::MembersRead).await;
            }
            CouncilCommand::ReadMap => {
                let (revision, value) = keys.map().await?;
                self.tell(CouncilEvent::MapRead { revision, value }).await;
            }
            CouncilCommand::ReadMember { node, token } => {
                let entry = keys.member(&node).await?;
                let found = entry.and_then(|entry| Some((life_of(&entry.value)?, entry.value.slice(4..))));
                self.tell(CouncilEvent::MemberRead { node, token, found }).await;
            }
            CouncilCommand::AskToDrain { node, life } => keys.ask_to_drain(&node, life).await?,
            CouncilCommand::Withdraw => {
                let (node, revision) = (&self.settings.node, self.revision);
                // A key that cannot be removed is forgotten by its age.
                let _ = keys.members.delete_expect_revision(node, Some(revision)).await;
                return Ok(Some(SessionEnd::Left));
            }
        }
        Ok(None)
    }

    async fn renew(&mut self, keys: &Keys, token: u64, value: &Bytes) -> Result<Option<SessionEnd>, Fault> {
        if self.revision == 0 {
            self.tell(CouncilEvent::Expired).await;
            return Ok(None);
        }
        let value = marked(self.life, value);
        let node = self.settings.node.clone();
        if let Swap::Done(revision) = keys.renew(&node, value.clone(), self.revision).await? {
            self.revision = revision;
            self.tell(CouncilEvent::Renewed { token }).await;
            return Ok(None);
        }
        match keys.holder(&node).await? {
            None => {
                self.revision = 0;
                self.tell(CouncilEvent::Expired).await;
                return Ok(Some(SessionEnd::Forgotten));
            }
            Some((life, _)) if life != self.life => self.tell(CouncilEvent::Superseded { by: life }).await,
            // The answer to an earlier renewal was lost.
            Some((_, revision)) => {
                self.revision = revision;
                if let Swap::Done(revision) = keys.renew(&node, value, revision).await? {
                    self.revision = revision;
                    self.tell(CouncilEvent::Renewed { token }).await;
                }
            }
        }
        Ok(None)
    }

    async fn note_member(&mut self, entry: kv::Entry) {
        let node: Box<str> = entry.key.into();
        let event = match (entry.operation, life_of(&entry.value)) {
            (Operation::Put, Some(life)) => {
                CouncilEvent::Member { life, node, value: entry.value.slice(4..) }
            }
            (Operation::Put, None) => return,
            (Operation::Delete | Operation::Purge, _) => CouncilEvent::Withdrawn { node },
        };
        self.tell(event).await;
    }

    /// Keys of the farm itself: the map, and requests that nodes drain.
    async fn note_state(&mut self, entry: kv::Entry) {
        let kv::Entry { key, revision, value, operation, .. } = entry;
        let is_asked = || key.strip_prefix(DRAIN) == Some(&*self.settings.node);
        if operation != Operation::Put {
            return;
        }
        if key == MAP {
            self.tell(CouncilEvent::MapWritten { revision, value }).await;
        } else if is_asked() && life_of(&value) == Some(self.life) {
            self.tell(CouncilEvent::DrainAsked).await;
        }
    }

    async fn lose(&mut self, reason: Fault) {
        if !self.is_away {
            self.is_away = true;
            self.tell(CouncilEvent::Away { reason }).await;
        }
    }

    async fn recover(&mut self) {
        if self.is_away {
            self.is_away = false;
            self.tell(CouncilEvent::Back).await;
        }
    }

    async fn tell(&self, event: CouncilEvent) {
        // The receiver may have gone: the node ends.
        let _ = self.events.send(event).await;
    }
}
