//! A minimal server for users: all users are mutual contacts, and a message to an absent user waits.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::Builder;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use xmpp::limits::STANZA;
use xmpp::xml::{Frame, Framer, Prefixes, parse, parse_header};
use xmpp::{Element, ns};

/// Listens until the test process ends.
pub(crate) struct Jabber {
    pub(crate) address: SocketAddr,
    house: Arc<Mutex<House>>,
}

#[derive(Default)]
struct House {
    online: BTreeMap<String, TcpStream>,
    presences: BTreeMap<String, String>,
    waiting: BTreeMap<String, Vec<String>>,
    messages: u64,
    /// No user has an account.
    refuses: bool,
}

impl Jabber {
    pub(crate) fn start(ip: &str) -> Jabber {
        Jabber::start_with(ip, House::default())
    }

    /// A server without accounts.
    pub(crate) fn refusing(ip: &str) -> Jabber {
        Jabber::start_with(ip, House { refuses: true, ..House::default() })
    }

    fn start_with(ip: &str, house: House) -> Jabber {
        let listener = TcpListener::bind((ip, 0)).expect("a port");
        let address = listener.local_addr().expect("bound");
        let house = Arc::new(Mutex::new(house));
        let keeper = Arc::clone(&house);
        let accepts = move || {
            for stream in listener.incoming() {
                let (stream, house) = (stream.expect("accepted"), Arc::clone(&keeper));
                Builder::new().spawn(move || Visit::new(stream, house).serve()).expect("a thread");
            }
        };
        Builder::new().spawn(accepts).expect("a thread");
        Jabber { address, house }
    }

    pub(crate) fn online(&self) -> usize {
        self.house.lock().expect("no visit panicked").online.len()
    }

    pub(crate) fn messages(&self) -> u64 {
        self.house.lock().expect("no visit panicked").messages
    }
}

/// One connection.
struct Visit {
    stream: TcpStream,
    house: Arc<Mutex<House>>,
    name: Option<String>,
}

impl Visit {
    fn new(stream: TcpStream, house: Arc<Mutex<House>>) -> Visit {
        Visit { stream, house, name: None }
    }

    fn serve(mut self) {
        let (mut framer, mut prefixes) = (Framer::new(), Prefixes::default());
        let mut scratch = [0; 4096];
        'open: while let Ok(count @ 1..) = self.stream.read(&mut scratch) {
            framer.put(&scratch[..count]);
            while let Some(frame) = framer.next(STANZA).expect("Ringer writes XML") {
                match frame {
                    Frame::Whitespace => {}
                    Frame::Close => break 'open,
                    Frame::Header(range) => {
                        prefixes = parse_header(framer.bytes(range)).expect("a header").1;
                        self.open();
                    }
                    Frame::Stanza(range) => {
                        let stanza = parse(framer.bytes(range), &prefixes).expect("a stanza");
                        self.handle(&stanza);
                        if stanza.is("auth", ns::SASL) && self.name.is_some() {
                            framer.restart();
                        }
                    }
                }
            }
        }
        let mut house = self.house.lock().expect("no visit panicked");
        // A newer session may have this name already.
        let peer = self.stream.peer_addr().ok();
        let name = self
            .name
            .as_ref()
            .filter(|name| house.online.get(*name).is_some_and(|stream| stream.peer_addr().ok() == peer));
        if let Some(name) = name {
            house.online.remove(name);
            house.presences.remove(name);
            house.tell_all(name, &format!("<presence type='unavailable' from='{name}@d/ringer'/>"));
        }
    }

    fn say(&mut self, text: &str) {
        // A session that has left receives nothing.
        let _ = self.stream.write_all(text.as_bytes());
    }

    fn open(&mut self) {
        let features = match self.name {
            None => format!("<mechanisms xmlns='{}'><mechanism>PLAIN</mechanism></mechanisms>", ns::SASL),
            Some(_) => format!("<bind xmlns='{}'/>", ns::BIND),
        };
        self.say(&format!(
            "<stream:stream xmlns='{}' xmlns:stream='{}' id='1' version='1.0'><stream:features>{features}</stream:features>",
            ns::CLIENT,
            ns::STREAM
        ));
    }

    fn handle(&mut self, stanza: &Element) {
        match stanza.name() {
            "auth" if self.house.lock().expect("no visit panicked").refuses => {
                self.say(&format!("<failure xmlns='{}'><not-authorized/></failure>", ns::SASL));
            }
            "auth" => {
                let plain = STANDARD.decode(stanza.content().trim()).expect("base 64");
                let plain = String::from_utf8(plain).expect("text");
                self.name = plain.split('\0').nth(1).map(str::to_owned);
                self.say(&format!("<success xmlns='{}'/>", ns::SASL));
            }
            "iq" => self.answer(stanza.attr("id").unwrap_or_default()),
            "presence" if stanza.attr("type").is_none() => self.spread(stanza.clone()),
            "message" => self.pass(stanza.clone()),
            _ => {}
        }
    }

    fn answer(&mut self, id: &str) {
        if id != "roster" {
            return self.say(&format!("<iq type='result' id='{id}'/>"));
        }
        let items: String =
            (0..100).map(|n| format!("<item jid='user{n}@d' subscription='both'/>")).collect();
        let name = self.name.clone().expect("signed in");
        let stream = self.stream.try_clone().expect("a stream");
        let mut house = self.house.lock().expect("no visit panicked");
        let roster =
            format!("<iq type='result' id='{id}'><query xmlns='{}'>{items}</query></iq>", ns::ROSTER);
        house.online.insert(name.clone(), stream);
        house.tell(&name, &roster);
    }

    fn spread(&mut self, mut presence: Element) {
        let name = self.name.clone().expect("signed in");
        presence.set("from", format!("{name}@d/ringer"));
        let text = presence.to_string();
        let mut house = self.house.lock().expect("no visit panicked");
        let is_first = house.presences.insert(name.clone(), text.clone()).is_none();
        house.tell_all(&name, &text);
        if is_first {
            let others: Vec<String> = house.presences.values().cloned().collect();
            let waiting = house.waiting.remove(&name).unwrap_or_default();
            others.iter().chain(&waiting).for_each(|text| house.tell(&name, text));
        }
    }

    fn pass(&mut self, mut message: Element) {
        let name = self.name.as_deref().expect("signed in");
        let to = message.attr("to").and_then(|to| to.split('@').next()).expect("a receiver").to_owned();
        message.set("from", format!("{name}@d/ringer"));
        let mut house = self.house.lock().expect("no visit panicked");
        house.messages += 1;
        if house.presences.contains_key(&to) {
            return house.tell(&to, &message.to_string());
        }
        message.push(Element::new("delay", ns::DELAY));
        house.waiting.entry(to).or_default().push(message.to_string());
    }
}

impl House {
    fn tell(&mut self, name: &str, text: &str) {
        if let Some(stream) = self.online.get_mut(name) {
            // A session that has left receives nothing.
            let _ = stream.write_all(text.as_bytes());
        }
    }

    fn tell_all(&mut self, but: &str, text: &str) {
        let others: Vec<String> = self.online.keys().filter(|name| *name != but).cloned().collect();
        others.iter().for_each(|name| self.tell(name, text));
    }
}
