//! One room: the time that a message takes to all of its occupants.

use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use crate::client::Client;
use crate::{Options, wait};

/// A message that has not arrived by then is lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// The first is the room's owner, and speaks. Prints milliseconds: of each delivery, and of each message until the last
/// had it.
pub(crate) async fn measure(mut clients: Vec<Client>, options: &Options) -> anyhow::Result<()> {
    clients.sort_by_key(|client| client.number);
    let room = format!("bench@{}", options.service);
    let count = clients.len();
    let (heard, mut hears) = mpsc::channel(count * 4);
    let mut writers = Vec::with_capacity(count);
    let mut listeners = JoinSet::new();
    for mut client in clients {
        enter(&mut client, &room).await.with_context(|| format!("user{} enters", client.number))?;
        let (reader, writer) = tokio::io::split(client.io);
        writers.push(writer);
        listeners.spawn(listen(reader, heard.clone()));
    }
    drop(heard);
    println!("entered {count}");
    let writer = writers.first_mut().context("the room is empty")?;
    wait().await?;
    let (mut each, mut whole) = (Vec::new(), Vec::new());
    let mut clock = interval(Duration::from_millis(options.every));
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for number in 0..options.messages {
        clock.tick().await;
        let message = format!(
            "<message type='groupchat' to='{room}' id='m{number}'><body>number {number}: {}</body></message>",
            "what one says in a room is about as long as this sentence"
        );
        let sent = Instant::now();
        writer.write_all(message.as_bytes()).await?;
        writer.flush().await?;
        let mut left = count;
        while left > 0 {
            let (which, at): (u32, Instant) = timeout(PATIENCE, hears.recv())
                .await
                .context("a message was lost")?
                .context("all are gone")?;
            if which == number {
                each.push((at - sent).as_secs_f64() * 1e3);
                left -= 1;
            }
        }
        whole.push(sent.elapsed().as_secs_f64() * 1e3);
    }
    println!("each {}", percentiles(&mut each));
    println!("whole {}", percentiles(&mut whole));
    wait().await
}

async fn enter(client: &mut Client, room: &str) -> anyhow::Result<()> {
    let enter = format!(
        "<presence to='{room}/nick{}'><x xmlns='http://jabber.org/protocol/muc'><history maxchars='0'/></x></presence>",
        client.number
    );
    client.say(&enter).await?;
    client.hear("<subject").await?;
    if client.number == 0 {
        // A room is locked until its owner has taken its configuration (XEP-0045 §10.1.2).
        let configure = format!(
            "<iq type='set' to='{room}' id='c'><query xmlns='http://jabber.org/protocol/muc#owner'>\
             <x xmlns='jabber:x:data' type='submit'/></query></iq>"
        );
        client.say(&configure).await?;
        client.hear("id='c'").await?;
    }
    Ok(())
}

/// Tells of each message that comes when its end has come.
async fn listen(mut reader: impl AsyncRead + Unpin, heard: mpsc::Sender<(u32, Instant)>) {
    const MARK: &[u8] = b"<body>number ";
    let mut bytes = Vec::new();
    let mut buffer = [0; 16_384];
    while let Ok(count) = reader.read(&mut buffer).await {
        if count == 0 {
            return;
        }
        bytes.extend_from_slice(&buffer[..count]);
        while let Some(end) = find(&bytes, b"</message>") {
            let message: Vec<u8> = bytes.drain(..end + b"</message>".len()).collect();
            let Some(at) = find(&message, MARK) else { continue };
            let digits = message[at + MARK.len()..].iter().take_while(|byte| byte.is_ascii_digit());
            let number = digits.fold(0, |number, byte| number * 10 + u32::from(byte - b'0'));
            if heard.send((number, Instant::now())).await.is_err() {
                return;
            }
        }
        // Others' presence.
        if find(&bytes, b"<message").is_none() && bytes.len() > 64 {
            bytes.drain(..bytes.len() - 16);
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, wanted)
}

/// p50, p99 and the longest.
fn percentiles(all: &mut [f64]) -> String {
    all.sort_by(f64::total_cmp);
    let at = |part: f64| {
        all.get(((all.len() as f64 * part) as usize).min(all.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    };
    format!("{:.3} {:.3} {:.3}", at(0.5), at(0.99), at(1.0))
}
