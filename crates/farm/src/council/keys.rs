//! The keys of a farm and the rules by which they are written.

use std::time::Duration;

use async_nats::jetstream::kv::{self, CreateErrorKind, Operation, Store, UpdateErrorKind};
use bytes::{BufMut as _, Bytes, BytesMut};
use cluster::Life;
use cluster::life_draw::{LifeCounter, LifeDraw, LifeStep};
use futures_util::StreamExt as _;
use tokio::time::sleep;

/// The reason that a node cannot be a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinRefused {
    /// A live node has the same name.
    NameTaken {
        /// Its life.
        by: u32,
    },
    /// The farm of this name has another secret.
    OtherSecret,
}

impl std::fmt::Display for JoinRefused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            JoinRefused::NameTaken { by } => {
                write!(f, "a live node of the farm has this name (life {by}): give each node a name of its own")
            }
            JoinRefused::OtherSecret => {
                f.write_str("the council knows a farm of this name with another secret: copy the farm's secret to this node, or choose another name for the farm")
            }
        }
    }
}

/// The result of a compare-and-swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Swap {
    /// Written, with the new revision.
    Done(u64),
    /// Another write came before.
    Refused,
}

/// An error of the client or the server, for the operator.
pub(crate) type Fault = Box<str>;

fn fault(error: impl std::fmt::Display) -> Fault {
    error.to_string().into()
}

/// The two key-value stores of a farm.
pub(crate) struct Keys {
    pub(crate) members: Store,
    pub(crate) state: Store,
}

/// The key of the map in the state.
pub(crate) const MAP: &str = "map";
/// The beginning of keys that ask a node to drain: the node's name follows, and the value is its life.
pub(crate) const DRAIN: &str = "drain.";
const SECRET: &str = "secret";
/// The pause between two looks at the clock by a node whose life is ahead of it: a tenth of what the clock takes for one life.
const CLOCK_PAUSE: Duration = Duration::from_millis(12);
const LIFE: &str = "life";

impl Keys {
    /// Compares the farm's secret with the one that the first node left there.
    pub(crate) async fn check_secret(&self, proof: &Bytes) -> Result<Result<(), JoinRefused>, Fault> {
        match self.state.create(SECRET, proof.clone()).await {
            Ok(_) => return Ok(Ok(())),
            Err(error) if error.kind() == CreateErrorKind::AlreadyExists => {}
            Err(error) => return Err(fault(error)),
        }
        let known = self.state.get(SECRET).await.map_err(fault)?;
        Ok(if known.as_ref() == Some(proof) { Ok(()) } else { Err(JoinRefused::OtherSecret) })
    }

    /// Draws a life that no node has had. `clock`: the life of the present moment.
    pub(crate) async fn draw_life(&self, clock: impl Fn() -> u32) -> Result<u32, Fault> {
        let (mut draw, mut step) = (LifeDraw::default(), LifeStep::Read);
        let mut revision = 0;
        loop {
            step = match step {
                LifeStep::Read => {
                    let counter;
                    (counter, revision) = self.life_counter().await?;
                    draw.handle_read(counter, Life(clock()))
                }
                LifeStep::Claim(life) => draw.handle_claimed(self.claim_life(life).await?),
                LifeStep::Swap(life) => {
                    let swapped = swap(&self.state, LIFE, marked(life.0, &[]), revision).await?;
                    draw.handle_swapped(matches!(swapped, Swap::Done(_)), Life(clock()))
                }
                LifeStep::Wait(_) => {
                    sleep(CLOCK_PAUSE).await;
                    draw.expire(Life(clock()))
                }
                LifeStep::Done(life) => {
                    // A later draw reads a later clock. A life ahead of the clock keeps its key.
                    if clock() > life.0 {
                        let _ = self.state.purge(life_key(life)).await;
                    }
                    return Ok(life.0);
                }
            }
        }
    }

    /// Makes the key of a life; false if there is one.
    async fn claim_life(&self, life: Life) -> Result<bool, Fault> {
        match self.state.create(life_key(life), marked(life.0, &[])).await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == CreateErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(fault(error)),
        }
    }

    /// Raises the counter of lives to this one: a council that has lost its files does not know it.
    pub(crate) async fn raise_life(&self, life: u32) -> Result<(), Fault> {
        loop {
            let (counter, revision) = self.life_counter().await?;
            if counter.last.is_some_and(|last| last.0 >= life) {
                return Ok(());
            }
            if let Swap::Done(_) = swap(&self.state, LIFE, marked(life, &[]), revision).await? {
                return Ok(());
            }
        }
    }

    /// The counter of lives and its revision. The files are told by the moment at which the secret's proof was written to them: it is
    /// read first, so the counter is not one of earlier files.
    async fn life_counter(&self) -> Result<(LifeCounter, u64), Fault> {
        let made = self.state.entry(SECRET).await.map_err(fault)?.ok_or("the council has no secret")?;
        let last = self.state.entry(LIFE).await.map_err(fault)?;
        let revision = last.as_ref().map_or(0, |entry| entry.revision);
        let last = last.and_then(|entry| life_of(&entry.value)).map(Life);
        Ok((LifeCounter { files: made.created.unix_timestamp_nanos(), last }, revision))
    }

    /// Takes the name for this life. `Err` within has the life of the node that has it.
    pub(crate) async fn take_name(
        &self,
        node: &str,
        life: u32,
        value: &[u8],
    ) -> Result<Result<u64, u32>, Fault> {
        match self.members.create(node, marked(life, value)).await {
            Ok(revision) => Ok(Ok(revision)),
            Err(error) if error.kind() == CreateErrorKind::AlreadyExists => {
                let holder = self.members.entry(node).await.map_err(fault)?;
                Ok(match holder {
                    // A write of ours whose answer was lost.
                    Some(entry) if life_of(&entry.value) == Some(life) => Ok(entry.revision),
                    Some(entry) => Err(life_of(&entry.value).unwrap_or(0)),
                    // It went between the two requests: the next attempt gets the name.
                    None => Err(0),
                })
            }
            Err(error) => Err(fault(error)),
        }
    }

    /// A node's key as it is now.
    pub(crate) async fn member(&self, node: &str) -> Result<Option<kv::Entry>, Fault> {
        let entry = self.members.entry(node).await.map_err(fault)?;
        Ok(entry.filter(|entry| entry.operation == Operation::Put))
    }

    /// The names of all nodes that have a key.
    pub(crate) async fn nodes(&self) -> Result<Vec<String>, Fault> {
        let mut keys = self.members.keys().await.map_err(fault)?;
        let mut nodes = Vec::new();
        while let Some(key) = keys.next().await {
            nodes.push(key.map_err(fault)?);
        }
        Ok(nodes)
    }

    /// The map with its revision; 0 and nothing if there is none yet.
    pub(crate) async fn map(&self) -> Result<(u64, Option<Bytes>), Fault> {
        let entry = self.state.entry(MAP).await.map_err(fault)?;
        let revision = entry.as_ref().map_or(0, |entry| entry.revision);
        Ok((revision, entry.filter(|entry| entry.operation == Operation::Put).map(|entry| entry.value)))
    }

    /// The present holder of the name and the revision of its key.
    pub(crate) async fn holder(&self, node: &str) -> Result<Option<(u32, u64)>, Fault> {
        Ok(self.member(node).await?.and_then(|entry| Some((life_of(&entry.value)?, entry.revision))))
    }

    pub(crate) async fn renew(&self, node: &str, value: Bytes, revision: u64) -> Result<Swap, Fault> {
        swap(&self.members, node, value, revision).await
    }

    /// Asks a life of a node to drain. The key stays; another life does not mind it.
    pub(crate) async fn ask_to_drain(&self, node: &str, life: u32) -> Result<(), Fault> {
        let key = format!("{DRAIN}{node}");
        self.state.put(key, marked(life, &[])).await.map(drop).map_err(fault)
    }

    pub(crate) async fn swap_map(&self, value: Bytes, revision: u64) -> Result<Swap, Fault> {
        swap(&self.state, MAP, value, revision).await
    }
}

fn life_key(Life(life): Life) -> String {
    format!("{LIFE}.{life}")
}

pub(crate) async fn swap(store: &Store, key: &str, value: Bytes, revision: u64) -> Result<Swap, Fault> {
    match store.update(key, value, revision).await {
        Ok(revision) => Ok(Swap::Done(revision)),
        Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Ok(Swap::Refused),
        Err(error) => Err(fault(error)),
    }
}

/// The value of a key with the life of its writer before it.
pub(crate) fn marked(life: u32, value: &[u8]) -> Bytes {
    let mut marked = BytesMut::with_capacity(4 + value.len());
    marked.put_u32(life);
    marked.put_slice(value);
    marked.freeze()
}

/// The life before a value.
pub(crate) fn life_of(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|life| u32::from_be_bytes(*life))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes of two versions use one council: names of keys stay, and so does the life before each value.
    #[test]
    fn council_values_have_the_form_of_version_1() {
        assert_eq!([MAP, DRAIN, SECRET, LIFE], ["map", "drain.", "secret", "life"]);
        assert_eq!(life_key(Life(28_163_498)), "life.28163498");
        let value = marked(0x0102_0304, b"value");
        assert_eq!(&value[..], b"\x01\x02\x03\x04value");
        assert_eq!((life_of(&value), life_of(b"\x01\x02")), (Some(0x0102_0304), None));
    }
}
