//! baresip as a phone without sound hardware, steered and watched through its ctrl_tcp module: JSON in netstrings.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::DOMAIN;
use crate::peer::Peer;
use crate::ports::free_port;
use crate::wait::wait_until;

const PATIENCE: Duration = Duration::from_secs(20);

pub struct Baresip {
    control: TcpStream,
    received: Vec<u8>,
    /// Every event so far, in order.
    events: Vec<String>,
    peer: Peer,
    folder: TempDir,
}

impl Baresip {
    /// Starts a phone for `user` that sends back what it hears and uses 127.0.0.1:`proxy`.
    pub fn start(user: &str, password: &str, proxy: u16) -> Baresip {
        Baresip::registering(user, password, proxy, "")
    }

    /// The same, and it answers by itself.
    pub fn answering(user: &str, password: &str, proxy: u16) -> Baresip {
        Baresip::registering(user, password, proxy, ";answermode=auto")
    }

    fn registering(user: &str, password: &str, proxy: u16, more: &str) -> Baresip {
        Baresip::start_with(user, &account(user, password, proxy, more), |_| ECHO.to_owned())
    }

    /// The same phone, which writes texts to one other account.
    pub fn writing(user: &str, password: &str, proxy: u16, to: &str) -> Baresip {
        let account = account(user, password, proxy, "");
        let sound = format!("{ECHO}module_app contact.so\n");
        let contact = format!("\"{to}\" <sip:{to}@{DOMAIN}>\n");
        Baresip::start_knowing(user, &account, &contact, |_| sound.clone())
    }

    /// Writes a text to the account for which it was started.
    pub fn write_text(&mut self, words: &str) {
        self.command("message", words);
    }

    /// Waits until it has got a text from that account.
    pub fn wait_for_text(&self, from: &str, words: &str) {
        let sender = format!("From: <sip:{from}@{DOMAIN}>");
        let is_there = || {
            let lines = self.peer.lines();
            let from = lines.iter().position(|line| line.starts_with(&sender));
            from.is_some_and(|at| lines[at..].iter().any(|line| line.contains(words)))
        };
        wait_until("baresip to get the text", PATIENCE, is_there, || self.peer.tail());
    }

    /// Starts a phone that does not register, offers one codec (`PCMU/8000/1`), says what is in a WAV file of that codec's
    /// rate and channels, and keeps what it hears.
    pub fn with_files(user: &str, proxy: u16, codec: &str, says: &Path) -> Baresip {
        let account = format!(
            "<sip:{user}@{DOMAIN}>;outbound=\"sip:127.0.0.1:{proxy}\";regint=0;audio_codecs={codec}\n"
        );
        Baresip::start_with(user, &account, |folder| {
            let modules = ["g722", "opus", "aufile", "sndfile"].map(|name| format!("module {name}.so\n"));
            format!(
                "audio_source aufile,{}\naudio_player aubridge,call\naudio_alert aubridge,bell\nsnd_path {}\n{}",
                says.display(),
                folder.display(),
                modules.concat()
            )
        })
    }

    fn start_with(user: &str, account: &str, sound: impl Fn(&Path) -> String) -> Baresip {
        Baresip::start_knowing(user, account, "", sound)
    }

    fn start_knowing(user: &str, account: &str, contacts: &str, sound: impl Fn(&Path) -> String) -> Baresip {
        let folder = TempDir::new().expect("a temporary folder");
        let control = free_port();
        write(&folder, "config", &(config(control) + &sound(folder.path())));
        write(&folder, "contacts", contacts);
        write(&folder, "accounts", account);
        // With its trace of messages: a text is shown on a screen, which it has not.
        let place = folder.path().display().to_string();
        let mut arguments = vec!["-f".to_owned(), place];
        arguments.extend((!contacts.is_empty()).then(|| "-s".to_owned()));
        let peer = Peer::start(user, "baresip", &arguments, folder.path());
        let mut stream = None;
        let connects = || {
            stream = TcpStream::connect(("127.0.0.1", control)).ok();
            stream.is_some()
        };
        wait_until("baresip's control port", PATIENCE, connects, || peer.tail());
        let control = stream.expect("it connected");
        control.set_read_timeout(Some(Duration::from_millis(100))).expect("a positive timeout");
        Baresip { control, received: Vec::new(), events: Vec::new(), peer, folder }
    }

    /// Waits until its REGISTER was accepted. Reads the log: the event may come before a test can listen for
    /// it.
    pub fn wait_until_registered(&self) {
        let accepted = || self.peer.lines().iter().any(|line| line.contains("{0/UDP/v4} 200 OK"));
        wait_until("baresip to be registered", PATIENCE, accepted, || self.peer.tail());
    }

    /// The WAV files of the sound that it received; whole once a call has ended.
    pub fn heard(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path()).expect("the test's own folder");
        let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        paths.filter(|path| path.to_string_lossy().ends_with("-dec.wav")).collect()
    }

    pub fn command(&mut self, command: &str, parameters: &str) {
        let text = format!("{{\"command\":\"{command}\",\"params\":\"{parameters}\"}}");
        let netstring = format!("{}:{text},", text.len());
        self.control.write_all(netstring.as_bytes()).expect("baresip takes commands");
    }

    /// Waits for an event by its type: `CALL_ESTABLISHED`. Events before it are forgotten.
    pub fn expect(&mut self, event: &str) {
        let mut seen: Vec<String> = Vec::new();
        let (control, received, events) = (&mut self.control, &mut self.received, &mut self.events);
        let comes = || {
            read_events(control, received, events);
            while !events.is_empty() {
                seen.push(events.remove(0));
                if seen.last().is_some_and(|last| last == event) {
                    return true;
                }
            }
            false
        };
        let peer = &self.peer;
        wait_until(&format!("baresip's {event}"), PATIENCE, comes, || peer.tail());
    }
}

fn read_events(control: &mut TcpStream, received: &mut Vec<u8>, events: &mut Vec<String>) {
    let mut buffer = [0; 4096];
    if let Ok(length) = control.read(&mut buffer) {
        received.extend_from_slice(&buffer[..length]);
    }
    while let Some(message) = take_netstring(received) {
        let message: Value = serde_json::from_slice(&message).unwrap_or_default();
        if let Some(kind) = message["type"].as_str() {
            events.push(kind.to_owned());
        }
    }
}

/// `5:hello,`
fn take_netstring(received: &mut Vec<u8>) -> Option<Vec<u8>> {
    let colon = received.iter().position(|byte| *byte == b':')?;
    let length: usize = std::str::from_utf8(&received[..colon]).ok()?.trim().parse().ok()?;
    let end = colon + 1 + length;
    if received.len() <= end {
        return None;
    }
    let message = received[colon + 1..end].to_vec();
    received.drain(..=end);
    Some(message)
}

fn account(user: &str, password: &str, proxy: u16, more: &str) -> String {
    format!(
        "<sip:{user}@{DOMAIN}>;auth_user={user};auth_pass={password};outbound=\"sip:127.0.0.1:{proxy}\";regint=60{more}\n"
    )
}

/// It hears what it says.
const ECHO: &str = "audio_source aubridge,call\naudio_player aubridge,call\naudio_alert aubridge,bell\n";

fn config(control: u16) -> String {
    let modules = ["g711", "aubridge"].map(|name| format!("module {name}.so\n")).concat();
    let applications = ["account", "menu", "ctrl_tcp"].map(|name| format!("module_app {name}.so\n")).concat();
    format!(
        "sip_listen 127.0.0.1:0\n\
         module_path {}\n\
         net_interface 127.0.0.1\n\
         ctrl_tcp_listen 127.0.0.1:{control}\n\
         {modules}{applications}",
        module_folder()
    )
}

fn module_folder() -> String {
    let multiarch = format!("/usr/lib/{}-linux-gnu/baresip/modules", std::env::consts::ARCH);
    let places = ["/usr/lib/baresip/modules".to_owned(), multiarch];
    places
        .into_iter()
        .find(|place| std::path::Path::new(place).is_dir())
        .expect("baresip's modules. Install them: apt-get install baresip-core")
}

fn write(folder: &TempDir, name: &str, text: &str) {
    std::fs::write(folder.path().join(name), text).expect("the test's folder is writable");
}
