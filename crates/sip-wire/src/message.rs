//! The message: one buffer and an index of its lines.

use std::ops::Range;

use bytes::{Buf, Bytes};

use super::address::Address;
use super::header::Header;
use super::method::Method;
use super::places::{AddressPlaces, Place, UriPlaces, ViaPlaces};
use super::scan::{early_position, is_lws, is_token, parse_number, position, trim, trim_end, trim_start};
use super::uri::{Uri, UriError};
use super::values::Values;
use super::via::Via;
use crate::limits;

/// A SIP message over the bytes it came in. Header lines keep their order, their case and their folding.
#[derive(Clone, Debug)]
pub struct Message {
    bytes: Bytes,
    kind: MessageKind,
    lines: Vec<HeaderLine>,
    start: StartLine,
    /// Where the body starts.
    body: u32,
    /// [`Header::bit`] of every header that stands in it.
    present: u64,
    /// Some line of the header has no name, or a CR stands without its LF.
    blemished: bool,
    /// A header that must stand once stands twice.
    repeated: bool,
    uri: Result<UriPlaces, UriError>,
    top_via: Option<ViaPlaces>,
    /// `None`: it is missing or malformed.
    from: Option<AddressPlaces>,
    to: Option<AddressPlaces>,
    cseq: Option<(u32, Place)>,
}

/// A request with its method or a response with its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A request (RFC 3261 §7.1).
    Request {
        /// The method of its request line.
        method: Method,
    },
    /// A response (RFC 3261 §7.2).
    Response {
        /// The status code of its status line, 100 to 699.
        status: u16,
    },
}

/// Places in the start line, which begins with the buffer.
#[derive(Clone, Copy, Debug)]
struct StartLine {
    /// Before the line end.
    length: u32,
    /// The start of a request's Request-URI.
    uri_start: u32,
    uri_end: u32,
}

impl StartLine {
    /// `spaces`: the first and the last one.
    fn of(line: &[u8], spaces: Option<(usize, usize)>) -> StartLine {
        let uri_start = spaces.map_or(line.len(), |(first, _)| first + 1);
        let uri_end = spaces.map_or(line.len(), |(_, last)| last).max(uri_start);
        StartLine { length: offset(line.len()), uri_start: offset(uri_start), uri_end: offset(uri_end) }
    }
}

/// A header line's place in the buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeaderLine {
    pub(crate) header: Header,
    /// First byte of the name.
    pub(crate) start: u32,
    pub(crate) value_start: u32,
    pub(crate) value_end: u32,
    /// After the line end.
    pub(crate) end: u32,
}

impl HeaderLine {
    pub(crate) fn value(&self) -> Range<usize> {
        self.value_start as usize..self.value_end as usize
    }

    pub(crate) fn whole(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// True if the line has this name, in any case; `bytes` are those of the message.
    fn has_name(&self, bytes: &[u8], name: &str) -> bool {
        let text = &bytes[self.start as usize..];
        text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes()))
            && matches!(text.get(name.len()), Some(b':' | b' ' | b'\t'))
    }
}

/// Why bytes are not a message at all: nothing can be answered, only counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Neither a request line nor a status line.
    NotSip,
    /// The empty line that ends the header is missing.
    Unfinished,
    /// More header lines than `limits` allows.
    TooManyHeaders,
    /// More bytes than `limits` allows.
    TooLarge,
}

/// Bytes that are not a message.
#[derive(Debug)]
pub struct Unparsed {
    /// The reason.
    pub error: ParseError,
    /// As they came, without empty lines before them.
    pub bytes: Bytes,
}

impl Message {
    /// Indexes one whole message. An error inside a header shows when the header is read, or in
    /// [`check_request`](super::check_request), so that it can be answered.
    ///
    /// Empty lines before the start line are skipped (RFC 3261 §7.5), and bytes after the end that
    /// Content-Length gives are dropped (§18.3): we forward one message, whatever came after it.
    pub fn parse(bytes: Bytes) -> Result<Message, ParseError> {
        Message::parse_packet(bytes).map_err(|unparsed| unparsed.error)
    }

    /// As [`parse`](Self::parse). Bytes that are not a message are returned with the error: a copy of them would cost each
    /// message an allocation.
    pub fn parse_packet(mut bytes: Bytes) -> Result<Message, Unparsed> {
        let leading = bytes.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
        bytes.advance(leading);
        let (kind, start, header) = match index(&bytes) {
            Ok(index) => index,
            Err(error) => return Err(Unparsed { error, bytes }),
        };
        let mut message = Message {
            bytes,
            kind,
            lines: header.lines,
            start,
            body: offset(header.body),
            present: header.present,
            blemished: header.blemished,
            repeated: header.repeated,
            uri: Err(UriError::Malformed),
            top_via: None,
            from: None,
            to: None,
            cseq: None,
        };
        if let Some(Some(length)) = message.content_length() {
            // A length beyond the received bytes is answered by `check_request`.
            message.bytes.truncate((message.body as usize).saturating_add(length));
        }
        message.find_places();
        Ok(message)
    }

    /// Finds what nearly every layer asks for.
    fn find_places(&mut self) {
        let bytes = &self.bytes;
        let address = |header| AddressPlaces::of(self.header(header)?, bytes);
        let (from, to) = (address(Header::From), address(Header::To));
        let top = self.header(Header::Via).and_then(|line| Values::new(line).next());
        let top_via = top.and_then(|value| ViaPlaces::of(value, bytes));
        let uri = if self.is_request() { UriPlaces::of(self.uri(), bytes) } else { self.uri };
        let cseq = self.header(Header::CSeq).and_then(parse_cseq);
        let cseq = cseq.map(|(number, name)| (number, Place::of(name, bytes)));
        (self.from, self.to, self.cseq, self.top_via, self.uri) = (from, to, cseq, top_via, uri);
    }

    /// The message as it came.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The kind of the message.
    pub fn kind(&self) -> MessageKind {
        self.kind
    }

    /// True for a request.
    pub fn is_request(&self) -> bool {
        matches!(self.kind, MessageKind::Request { .. })
    }

    /// The request's method; for a response that of its CSeq.
    pub fn method(&self) -> Method {
        match self.kind {
            MessageKind::Request { method } => method,
            MessageKind::Response { .. } => {
                self.cseq().map_or(Method::Other, |(_, name)| Method::from_bytes(name))
            }
        }
    }

    /// The method's name as written; for a response that of its CSeq.
    pub fn method_name(&self) -> &[u8] {
        match self.kind {
            MessageKind::Request { .. } => &self.bytes[..self.uri_span().start.saturating_sub(1)],
            MessageKind::Response { .. } => self.cseq().map_or(b"", |(_, name)| name),
        }
    }

    /// 0 for a request.
    pub fn status(&self) -> u16 {
        match self.kind {
            MessageKind::Request { .. } => 0,
            MessageKind::Response { status } => status,
        }
    }

    /// The Reason-Phrase of a response.
    pub fn reason(&self) -> &[u8] {
        let line = self.start_line();
        line.get(12..).map_or(b"", trim)
    }

    /// The Request-URI as written.
    pub fn uri(&self) -> &[u8] {
        &self.bytes[self.uri_span()]
    }

    /// The Request-URI, parsed; malformed for a response.
    ///
    /// # Errors
    /// The same as those of [`Uri::parse`].
    pub fn request_uri(&self) -> Result<Uri<'_>, UriError> {
        self.uri.map(|places| places.uri(self.uri(), &self.bytes))
    }

    pub(crate) fn uri_span(&self) -> Range<usize> {
        self.start.uri_start as usize..self.start.uri_end as usize
    }

    /// Request line or status line, without its line end.
    pub fn start_line(&self) -> &[u8] {
        &self.bytes[..self.start.length as usize]
    }

    pub(crate) fn lines(&self) -> &[HeaderLine] {
        &self.lines
    }

    /// Where the first header line starts.
    pub(crate) fn headers_start(&self) -> usize {
        self.lines.first().map_or(self.headers_end(), |line| line.start as usize)
    }

    /// Where the empty line starts.
    pub(crate) fn headers_end(&self) -> usize {
        self.lines.last().map_or_else(
            || memchr::memchr(b'\n', &self.bytes).map_or(self.bytes.len(), |at| at + 1),
            |line| line.end as usize,
        )
    }

    /// The first line of that name, its value without surrounding white space.
    pub fn header(&self, header: Header) -> Option<&[u8]> {
        self.header_lines(header).next()
    }

    /// Every line of that name.
    pub fn header_lines(&self, header: Header) -> impl Iterator<Item = &[u8]> {
        // Most lookups are of headers that are not there.
        let lines = if self.has_any(header.bit()) { &self.lines[..] } else { &[] };
        lines.iter().filter(move |line| line.header == header).map(|line| &self.bytes[line.value()])
    }

    /// Every comma-separated value of that name, over all its lines.
    pub fn values(&self, header: Header) -> impl Iterator<Item = &[u8]> {
        self.header_lines(header).flat_map(Values::new)
    }

    /// The first line of a header that has no [`Header`] of its own.
    pub fn header_named(&self, name: &str) -> Option<&[u8]> {
        self.lines
            .iter()
            .find(|line| line.header == Header::Other && line.has_name(&self.bytes, name))
            .map(|line| &self.bytes[line.value()])
    }

    /// The lines of headers that have no [`Header`] of their own: name and value.
    pub fn others(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.lines.iter().filter(|line| line.header == Header::Other).map(|line| {
            let text = &self.bytes[line.start as usize..line.end as usize];
            let name = text.split(|&b| b == b':').next().unwrap_or_default();
            (trim(name), &self.bytes[line.value()])
        })
    }

    /// True if any of these headers stands in it; `bits` are [`Header::bit`]s. Costs no look at the lines.
    pub fn has_any(&self, bits: u64) -> bool {
        self.present & bits != 0
    }

    /// The number of lines of a header.
    pub fn count(&self, header: Header) -> usize {
        self.header_lines(header).count()
    }

    /// The body that Content-Length gives; all that follows the header when there is none.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.body as usize..]
    }

    /// True if the header's lines are all `name: value`, each ended by a line end that all readers agree on.
    pub(crate) fn lines_are_sound(&self) -> bool {
        !self.blemished
    }

    /// `Some(None)` when it stands there but is not a number.
    pub fn content_length(&self) -> Option<Option<usize>> {
        self.header(Header::ContentLength).map(|value| parse_number(value).map(|length| length as usize))
    }

    /// The topmost Via, parsed.
    pub fn top_via(&self) -> Option<Via<'_>> {
        self.top_via.map(|places| places.via(&self.bytes))
    }

    /// The topmost Via as written, if it is well formed.
    pub fn top_via_value(&self) -> Option<&[u8]> {
        self.top_via.map(|places| places.value(&self.bytes))
    }

    /// Every Via that is well formed, the topmost first.
    pub fn vias(&self) -> impl Iterator<Item = Via<'_>> {
        // Mostly the topmost one has a line to itself, which is not split for it again.
        let is_alone = top_via_is_alone(self);
        let lines = self.header_lines(Header::Via).skip(usize::from(is_alone));
        let others = lines.flat_map(Values::new).skip(usize::from(!is_alone)).filter_map(Via::parse);
        self.top_via().into_iter().chain(others)
    }

    /// True if From and To stand there and are well formed.
    pub(crate) fn has_from_and_to(&self) -> bool {
        self.from.is_some() && self.to.is_some()
    }

    /// The From header, parsed.
    pub fn from(&self) -> Option<Address<'_>> {
        self.from.map(|places| places.address(&self.bytes))
    }

    /// The To header, parsed.
    pub fn to(&self) -> Option<Address<'_>> {
        self.to.map(|places| places.address(&self.bytes))
    }

    /// The tag of From.
    pub fn from_tag(&self) -> Option<&[u8]> {
        self.from?.tag(&self.bytes)
    }

    /// The tag of To.
    pub fn to_tag(&self) -> Option<&[u8]> {
        self.to?.tag(&self.bytes)
    }

    /// The Call-ID.
    pub fn call_id(&self) -> Option<&[u8]> {
        self.header(Header::CallId).filter(|id| !id.is_empty())
    }

    /// Sequence number and method name.
    pub fn cseq(&self) -> Option<(u32, &[u8])> {
        self.cseq.map(|(number, name)| (number, name.part(&self.bytes)))
    }

    /// `Some(None)` when it stands there but is not a number from 0 to 255.
    pub fn max_forwards(&self) -> Option<Option<u8>> {
        self.header(Header::MaxForwards)
            .map(|value| parse_number(value).and_then(|hops| u8::try_from(hops).ok()))
    }

    /// True if a header that must stand once (RFC 3261 §7.3.1, table 2) stands twice, so that two readers
    /// could take different ones for true.
    pub(crate) fn has_repeated_line(&self) -> bool {
        self.repeated
    }

    /// True if a comma-separated header of tokens (Require, Supported, ...) names `token`.
    pub fn lists(&self, header: Header, token: &str) -> bool {
        self.values(header).any(|value| value.eq_ignore_ascii_case(token.as_bytes()))
    }
}

/// The `branch` parameter of the topmost Via.
pub fn top_branch(message: &Message) -> Option<&[u8]> {
    message.top_via?.branch(&message.bytes)
}

/// Every line of one name among the headers of a group, such as Diversion in [`Header::AssertedIdentity`].
pub fn group_lines<'a>(message: &'a Message, group: Header, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let lines = message.lines.iter().filter(move |line| line.header == group);
    let named = lines.filter(move |line| line.has_name(&message.bytes, name));
    named.map(|line| &message.bytes[line.value()])
}

/// True if no other value stands in the line of the topmost Via.
pub(crate) fn top_via_is_alone(message: &Message) -> bool {
    let (line, value) = (message.header(Header::Via), message.top_via_value());
    line.zip(value).is_some_and(|(line, value)| line.len() == value.len())
}

/// True if one value of Via stands in the message: no proxy was on its way.
pub fn has_one_via(message: &Message) -> bool {
    let is_plain = top_via_is_alone(message) && message.count(Header::Via) == 1;
    is_plain || message.values(Header::Via).count() == 1
}

fn parse_cseq(value: &[u8]) -> Option<(u32, &[u8])> {
    let space = value.iter().position(|&b| is_lws(b))?;
    // RFC 3261 §8.1.1.5: less than 2**31.
    let number = parse_number(&value[..space]).filter(|&n| n < 1 << 31)?;
    Some((number, trim(&value[space..])))
}

fn trim_line(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// RFC 3261 §7.1.
const VERSION: &[u8] = b"SIP/2.0";

fn parse_start(line: &[u8], spaces: Option<(usize, usize)>) -> Option<MessageKind> {
    // RFC 3261 §7.1: the version is compared without regard to case.
    if line.len() > VERSION.len() && line[..VERSION.len()].eq_ignore_ascii_case(VERSION) {
        let rest = line[VERSION.len()..].strip_prefix(b" ")?;
        let status = rest.get(..3).and_then(parse_number).and_then(|code| u16::try_from(code).ok())?;
        let well_formed = matches!(rest.get(3), None | Some(b' ')) && (100..=699).contains(&status);
        return well_formed.then_some(MessageKind::Response { status });
    }
    let (space, last) = spaces?;
    let version = &line[last + 1..];
    if space == last {
        return None;
    }
    // The version itself is judged by check_request, which can answer 505; trailing junk by it too.
    let is_request = is_token(&line[..space])
        && (version.len() >= 4 && version[..4].eq_ignore_ascii_case(b"SIP/") || version.is_empty());
    is_request.then(|| MessageKind::Request { method: Method::from_bytes(&line[..space]) })
}

/// The start line and the header of one message, from its first byte on.
fn index(bytes: &[u8]) -> Result<(MessageKind, StartLine, HeaderIndex), ParseError> {
    if bytes.len() > limits::MESSAGE_BYTES {
        return Err(ParseError::TooLarge);
    }
    let first_end = memchr::memchr(b'\n', bytes).ok_or(ParseError::Unfinished)?;
    let start_line = trim_line(&bytes[..first_end]);
    // The method is short, and so is the version.
    let last_space = start_line.iter().rposition(|&byte| byte == b' ');
    let spaces = early_position([b' '], start_line).zip(last_space);
    let kind = parse_start(start_line, spaces).ok_or(ParseError::NotSip)?;
    // A folded start line: that line would be a header to one reader and none to another.
    if matches!(bytes.get(first_end + 1), Some(b' ' | b'\t')) {
        return Err(ParseError::NotSip);
    }
    let mut header = index_lines(bytes, first_end + 1)?;
    header.blemished |= position(b'\r', start_line).is_some();
    Ok((kind, StartLine::of(start_line, spaces), header))
}

/// The header lines found by the one pass over a message.
struct HeaderIndex {
    lines: Vec<HeaderLine>,
    present: u64,
    body: usize,
    /// A line has no name, or a CR stands without its LF: it ends a line for some readers and not for others, so it could hide
    /// a header from us.
    blemished: bool,
    repeated: bool,
}

/// Enough for nearly all messages in one allocation.
const USUAL_LINES: usize = 20;

fn index_lines(bytes: &[u8], mut at: usize) -> Result<HeaderIndex, ParseError> {
    let lines = Vec::with_capacity(USUAL_LINES);
    let mut index = HeaderIndex { lines, present: 0, body: 0, blemished: false, repeated: false };
    loop {
        match &bytes[at..] {
            [b'\n', ..] => return Ok(HeaderIndex { body: at + 1, ..index }),
            [b'\r', b'\n', ..] => return Ok(HeaderIndex { body: at + 2, ..index }),
            _ => {}
        }
        let end = line_end(bytes, at, &mut index.blemished)?;
        if index.lines.len() == limits::HEADER_LINES {
            return Err(ParseError::TooManyHeaders);
        }
        let (line, is_named) = index_line(bytes, at, end);
        let bit = line.header.bit();
        index.blemished |= !is_named;
        index.repeated |= index.present & bit != 0 && line.header.is_single();
        index.present |= bit;
        index.lines.push(line);
        at = end;
    }
}

/// After the end of a line that is not empty, continuation lines included (RFC 3261 §7.3.1).
fn line_end(bytes: &[u8], mut at: usize, blemished: &mut bool) -> Result<usize, ParseError> {
    loop {
        at += memchr::memchr2(b'\r', b'\n', &bytes[at..]).ok_or(ParseError::Unfinished)? + 1;
        if bytes[at - 1] == b'\r' {
            if bytes.get(at) != Some(&b'\n') {
                *blemished = true;
                continue;
            }
            at += 1;
        }
        if !matches!(bytes.get(at), Some(b' ' | b'\t')) {
            return Ok(at);
        }
    }
}

/// The line, and whether it has a name that every reader takes for one.
fn index_line(bytes: &[u8], start: usize, end: usize) -> (HeaderLine, bool) {
    let line = &bytes[start..end];
    let colon = early_position([b':'], line);
    let name = trim_end(&line[..colon.unwrap_or(0)]);
    let header = Header::from_bytes(name);
    let after_colon = colon.map_or(0, |at| at + 1);
    let behind = &line[after_colon..];
    // Nearly all lines end like that.
    let until_end = trim_end(behind.strip_suffix(b"\r\n").unwrap_or(behind));
    let value_end = start + after_colon + until_end.len();
    let line = HeaderLine {
        header,
        start: offset(start),
        value_start: offset(value_end - trim_start(until_end).len()),
        value_end: offset(value_end),
        end: offset(end),
    };
    (line, header != Header::Other || is_token(name))
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).expect("a message is bounded by limits::MESSAGE_BYTES")
}
