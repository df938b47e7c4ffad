//! One client, which understands no more than it needs: what it waits for is found by its bytes.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::{Mechanism, Options};

pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

pub(crate) struct Client {
    pub(crate) number: usize,
    pub(crate) io: Box<dyn Io>,
    /// Text that was read and not waited for.
    text: String,
}

impl Client {
    /// Connected, bound, and unless told otherwise with its roster read and its presence seen by itself.
    pub(crate) async fn sign_in(
        options: &Options,
        tls: Option<Arc<ClientConfig>>,
        number: usize,
    ) -> anyhow::Result<Client> {
        let socket = TcpStream::connect(options.address).await?;
        socket.set_nodelay(true)?;
        let io: Box<dyn Io> = match tls {
            Some(config) => {
                let name = ServerName::try_from(options.domain.clone())?;
                Box::new(TlsConnector::from(config).connect(name, socket).await?)
            }
            None => Box::new(socket),
        };
        let mut client = Client { number, io, text: String::new() };
        client.open(&options.domain).await?;
        let user = format!("user{number}");
        match options.mechanism {
            Mechanism::Plain => client.plain(&user, &options.password).await?,
            Mechanism::Scram => client.scram(&user, &options.password).await?,
        }
        client.open(&options.domain).await?;
        client
            .say("<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>bench</resource></bind></iq>")
            .await?;
        client.hear("</iq>").await?;
        if !options.bare {
            client.say("<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq><presence/>").await?;
            client.hear("<presence").await?;
        }
        Ok(client)
    }

    async fn open(&mut self, domain: &str) -> anyhow::Result<()> {
        let header = format!(
            "<?xml version='1.0'?><stream:stream to='{domain}' xmlns='jabber:client' \
             xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>"
        );
        self.say(&header).await?;
        self.hear("</stream:features>").await.map(drop)
    }

    async fn plain(&mut self, user: &str, password: &str) -> anyhow::Result<()> {
        let words = STANDARD.encode(format!("\0{user}\0{password}"));
        self.auth("PLAIN", &words).await?;
        self.hear("<success").await.map(drop)
    }

    /// RFC 5802, without checking the server: that costs the server nothing.
    async fn scram(&mut self, user: &str, password: &str) -> anyhow::Result<()> {
        let bare = format!("n={user},r=bench{:016x}", self.number);
        self.auth("SCRAM-SHA-256", &STANDARD.encode(format!("n,,{bare}"))).await?;
        let heard = self.hear("</challenge>").await?;
        let challenge = heard.trim_end_matches("</challenge>").rsplit_once('>').context("no challenge")?.1;
        let challenge = String::from_utf8(STANDARD.decode(challenge)?)?;
        let field = |name: &str| challenge.split(',').find_map(|field| field.strip_prefix(name));
        let (Some(nonce), Some(salt), Some(iterations)) = (field("r="), field("s="), field("i=")) else {
            bail!("the challenge is {challenge}");
        };
        let salted = salted(password.as_bytes(), &STANDARD.decode(salt)?, iterations.parse()?);
        let client_key = mac(&salted, b"Client Key");
        let unproven = format!("c=biws,r={nonce}");
        let signature = mac(&Sha256::digest(client_key), format!("{bare},{challenge},{unproven}").as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(signature).map(|(key, byte)| key ^ byte).collect();
        let words = STANDARD.encode(format!("{unproven},p={}", STANDARD.encode(proof)));
        self.say(&format!("<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>{words}</response>")).await?;
        self.hear("<success").await.map(drop)
    }

    async fn auth(&mut self, mechanism: &str, words: &str) -> anyhow::Result<()> {
        let auth =
            format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='{mechanism}'>{words}</auth>");
        self.say(&auth).await
    }

    pub(crate) async fn say(&mut self, text: &str) -> anyhow::Result<()> {
        self.io.write_all(text.as_bytes()).await?;
        Ok(self.io.flush().await?)
    }

    /// Reads until it has come; gives everything up to it and forgets that with what follows to the end of the tag.
    pub(crate) async fn hear(&mut self, wanted: &str) -> anyhow::Result<String> {
        loop {
            if let Some(at) = self.text.find(wanted) {
                let end = at + wanted.len();
                let end = if wanted.ends_with('>') {
                    Some(end)
                } else {
                    self.text[end..].find('>').map(|tag| end + tag + 1)
                };
                if let Some(end) = end {
                    let rest = self.text.split_off(end);
                    return Ok(std::mem::replace(&mut self.text, rest));
                }
            }
            if let Some(wrong) =
                ["<failure", "<stream:error", "type='error'"].iter().find(|wrong| self.text.contains(**wrong))
            {
                bail!("waiting for {wanted}: {wrong} in {}", self.text);
            }
            let mut buffer = [0; 4096];
            let count = self.io.read(&mut buffer).await?;
            if count == 0 {
                bail!("waiting for {wanted}: the server closed after {}", self.text);
            }
            self.text.push_str(std::str::from_utf8(&buffer[..count])?);
        }
    }

    /// Ready once the server has closed the connection.
    pub(crate) fn poll_end(&mut self, cx: &mut Context<'_>) -> Option<()> {
        let mut bytes = [0; 4096];
        loop {
            let mut buffer = ReadBuf::new(&mut bytes);
            match std::pin::Pin::new(&mut self.io).poll_read(cx, &mut buffer) {
                Poll::Pending => return None,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => return Some(()),
            }
        }
    }

    /// Reads until the server closes.
    pub(crate) async fn end(&mut self) {
        let mut buffer = [0; 4096];
        while self.io.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
    }
}

fn mac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// The salted password of RFC 5802 §2.2. Clients keep it, and the accounts of a run all have the same salt.
fn salted(password: &[u8], salt: &[u8], iterations: u32) -> [u8; 32] {
    type Known = (Vec<u8>, u32, [u8; 32]);
    static LAST: Mutex<Option<Known>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((of, by, salted)) = &*last
        && of == salt
        && *by == iterations
    {
        return *salted;
    }
    let salted = hi(password, salt, iterations);
    *last = Some((salt.to_vec(), iterations, salted));
    salted
}

fn hi(password: &[u8], salt: &[u8], iterations: u32) -> [u8; 32] {
    let keyed = Hmac::<Sha256>::new_from_slice(password).expect("HMAC takes keys of any length");
    let round = |message: &[u8]| -> [u8; 32] {
        let mut mac = keyed.clone();
        mac.update(message);
        mac.finalize().into_bytes().into()
    };
    let mut last = round(&[salt, &[0, 0, 0, 1]].concat());
    let mut sum = last;
    for _ in 1..iterations {
        last = round(&last);
        sum.iter_mut().zip(last).for_each(|(sum, byte)| *sum ^= byte);
    }
    sum
}
