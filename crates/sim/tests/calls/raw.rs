//! Messages written by hand, for peers that do what no phone does.

use std::net::SocketAddr;

use sim::{Mailbox, NodeId};

use crate::{SERVER, Scene, address};

/// A peer at one address that says what the test tells it to.
pub(crate) struct Peer {
    pub(crate) id: NodeId,
    pub(crate) addr: SocketAddr,
    requests: u32,
}

/// One request; empty fields are left out.
#[derive(Clone, Copy, Default)]
pub(crate) struct Raw<'a> {
    pub(crate) method: &'a str,
    pub(crate) uri: &'a str,
    pub(crate) route: &'a str,
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
    pub(crate) call_id: &'a str,
    pub(crate) contact: &'a str,
    /// Whole lines, each with its line end.
    pub(crate) lines: &'a str,
}

impl Peer {
    pub(crate) fn new(scene: &mut Scene, host: u8) -> Peer {
        Peer::at(scene, address(host))
    }

    pub(crate) fn at(scene: &mut Scene, addr: SocketAddr) -> Peer {
        Peer { id: scene.world.add("peer", &[addr], Mailbox::new()), addr, requests: 0 }
    }

    pub(crate) fn send(&mut self, scene: &mut Scene, raw: Raw<'_>) {
        self.send_to(scene, SERVER, raw);
    }

    /// Sends the request and lets half a second pass.
    pub(crate) fn send_to(&mut self, scene: &mut Scene, server: SocketAddr, raw: Raw<'_>) {
        self.requests += 1;
        self.send_numbered(scene, server, raw, (self.requests, ""));
    }

    /// The same as [`send`](Self::send), with a body.
    pub(crate) fn send_body(&mut self, scene: &mut Scene, raw: Raw<'_>, body: &str) {
        self.requests += 1;
        self.send_numbered(scene, SERVER, raw, (self.requests, body));
    }

    /// The same as [`send_body`](Self::send_body), with that CSeq.
    pub(crate) fn send_as(&mut self, scene: &mut Scene, raw: Raw<'_>, number: u32, body: &str) {
        self.requests += 1;
        self.send_numbered(scene, SERVER, raw, (number, body));
    }

    /// Copies of one request have one number and come by different ways.
    pub(crate) fn send_copy(&mut self, scene: &mut Scene, raw: Raw<'_>) {
        self.requests += 1;
        self.send_numbered(scene, SERVER, raw, (1_000, ""));
    }

    fn send_numbered(
        &mut self,
        scene: &mut Scene,
        server: SocketAddr,
        raw: Raw<'_>,
        (number, body): (u32, &str),
    ) {
        let transport = if server.port() == 5060 { "UDP" } else { "TCP" };
        let optional = |name: &str, value: &str| match value {
            "" => String::new(),
            value => format!("{name}: {value}\r\n"),
        };
        let text = format!(
            "{} {} SIP/2.0\r\nVia: SIP/2.0/{transport} {};branch=z9hG4bK-{}-{};rport\r\nMax-Forwards: 70\r\n{}From: {}\r\n\
             To: {}\r\nCall-ID: {}\r\nCSeq: {} {}\r\n{}{}Content-Length: {}\r\n\r\n{body}",
            raw.method,
            raw.uri,
            self.addr,
            self.addr.port(),
            self.requests,
            optional("Route", raw.route),
            raw.from,
            raw.to,
            raw.call_id,
            number,
            raw.method,
            optional("Contact", raw.contact),
            raw.lines,
            body.len(),
        );
        scene.world.send(self.id, self.addr, server, text);
        scene.run(500);
    }

    /// Everything that came so far, without retransmissions.
    pub(crate) fn received(&self, scene: &Scene) -> Vec<String> {
        let mut texts: Vec<String> = Vec::new();
        for letter in scene.world.node::<Mailbox>(self.id).letters() {
            let text = letter.text();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        texts
    }

    /// The last one that begins so.
    pub(crate) fn last(&self, scene: &Scene, start: &str) -> String {
        let received = self.received(scene);
        let found = received.iter().rfind(|text| text.starts_with(start));
        found.unwrap_or_else(|| panic!("no {start} in {received:#?}")).clone()
    }

    /// Answers a request as it stands, its Record-Route values behind `above`; half a second passes.
    pub(crate) fn respond(
        &self,
        scene: &mut Scene,
        request: &str,
        status: &str,
        tag: &str,
        above: &str,
        lines: &str,
    ) {
        self.respond_with(scene, request, (status, tag), above, (lines, ""));
    }

    /// The same with a body.
    pub(crate) fn respond_with(
        &self,
        scene: &mut Scene,
        request: &str,
        (status, tag): (&str, &str),
        above: &str,
        (lines, body): (&str, &str),
    ) {
        let mut text = format!("SIP/2.0 {status}\r\n");
        if !above.is_empty() {
            text += &format!("Record-Route: {above}\r\n");
        }
        for line in request.lines().skip(1).take_while(|line| !line.is_empty()) {
            let name = line.split(':').next().unwrap();
            if ["Via", "Record-Route", "From", "To", "Call-ID", "CSeq"].contains(&name) {
                text += line;
                if name == "To" && !line.contains(";tag=") {
                    text += &format!(";tag={tag}");
                }
                text += "\r\n";
            }
        }
        text += lines;
        text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        let to = if request.contains("Via: SIP/2.0/TCP 10.0.0.1") {
            SocketAddr::new(SERVER.ip(), 5062)
        } else {
            SERVER
        };
        scene.world.send(self.id, self.addr, to, text);
        scene.run(500);
    }
}

/// The value of the first header of that name.
pub(crate) fn header(text: &str, name: &str) -> String {
    let start = format!("{name}: ");
    let line = text.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
}

/// All Record-Route values, as they stand.
pub(crate) fn record_routes(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("Record-Route: "));
    lines.flat_map(|line| line.split(", ")).map(ToOwned::to_owned).collect()
}

/// A caller's Route header, of a response (RFC 3261 §12.1.2).
pub(crate) fn route_of_response(text: &str) -> String {
    let mut routes = record_routes(text);
    routes.reverse();
    routes.join(", ")
}

/// A callee's Route header, of a request (RFC 3261 §12.1.1).
pub(crate) fn route_of_request(text: &str) -> String {
    record_routes(text).join(", ")
}

/// The URI in the Contact.
pub(crate) fn contact(text: &str) -> String {
    let value = header(text, "Contact");
    value.split('<').nth(1).unwrap().split('>').next().unwrap().to_owned()
}
