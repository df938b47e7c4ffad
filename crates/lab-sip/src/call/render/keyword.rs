//! The keywords that differ from call to call or from message to message.
//!
//! Keywords that are the same in every call were written by `prepare`; those here need the call, the message that it received last or the clock.

use super::number::{write_i64, write_u64};
use super::prepare::{self, write_constant, write_ip};
use super::{IN_ACTION, LEN_WIDTH, NO_STEP, Renderer, date, header};
use crate::auth::{self, Secrets};
use crate::call::VariableValue;
use crate::call::actions::value;
use crate::inject::NO_LINE;
use crate::options::Options;
use crate::rtp::PortKind;
use crate::scenario::model::VarRef;
use crate::scenario::template::{AuthParams, Keyword, Template};

impl Renderer<'_, '_> {
    /// Appends the value of a keyword. An error fails the message.
    pub(super) fn keyword(&mut self, keyword: &Keyword) -> Result<(), String> {
        match keyword {
            Keyword::CallId => self.out.extend_from_slice(&self.call.identity.call_id),
            // As in SIPp the offset of this one and of `[dynamic_id]` does not count.
            Keyword::CallNumber(_) => write_u64(self.out, self.call.identity.number),
            Keyword::Cseq(offset) => write_i64(self.out, i64::from(self.call.cseq) + i64::from(*offset)),
            Keyword::Len(offset) => {
                // Blanks now; the number is put over them when the body is there.
                self.len = Some((self.out.len(), *offset));
                self.out.extend_from_slice(&[b' '; LEN_WIDTH]);
            }
            Keyword::Pid => write_u64(self.out, self.ctx.env.pid.into()),
            Keyword::PeerTagParam => self.out.extend_from_slice(&self.call.peer_tag),
            Keyword::Branch(offset) => self.branch(*offset),
            Keyword::MsgIndex => write_i64(self.out, self.index),
            Keyword::Last(_)
            | Keyword::LastValue(_)
            | Keyword::LastRequestUri
            | Keyword::LastCseqNumber(_)
            | Keyword::LastMessage => self.last(keyword),
            Keyword::Routes => self.routes(),
            Keyword::NextUrl => {
                if let Some(routes) = &self.call.routes {
                    self.out.extend_from_slice(&routes.next_url);
                }
            }
            Keyword::Var(variable) => self.variable(*variable),
            Keyword::Fill { text, variable } => self.fill(text, *variable),
            Keyword::MediaPort(_)
            | Keyword::AutoMediaPort(_)
            | Keyword::RtpStreamAudioPort(_)
            | Keyword::RtpStreamVideoPort(_) => self.media_port(keyword)?,
            Keyword::Crypto(name) => {
                let text = self.ctx.media.crypto(self.call.identity.number, name)?;
                self.out.extend_from_slice(text.as_bytes());
            }
            Keyword::Field { field, file, line } => {
                let file = prepare::find_file(&self.ctx.env.files, file.as_deref())?;
                let line = line.as_ref().map(|line| self.line_number(line)).transpose()?;
                self.field(file, *field, line)?;
            }
            Keyword::File(name) => {
                let name = self.scratch(name)?;
                self.out.extend_from_slice(&prepare::read_file(&name)?);
            }
            Keyword::Authentication(params) => self.authentication(params)?,
            _ => self.of_the_run(keyword)?,
        }
        Ok(())
    }

    /// Addresses, clocks, users and the rest.
    fn of_the_run(&mut self, keyword: &Keyword) -> Result<(), String> {
        let env = self.ctx.env;
        if write_constant(keyword, &env.options, env.prepared.addresses(), self.out) {
            return Ok(());
        }
        let identity = &self.call.identity;
        match keyword {
            Keyword::LocalIp | Keyword::LocalIpType | Keyword::ServerIp => {
                write_ip(keyword, identity.local.ip(), self.out);
            }
            Keyword::MediaIp | Keyword::MediaIpType => write_ip(keyword, identity.local.ip(), self.out),
            Keyword::RemoteIp | Keyword::RemoteHost => write_ip(keyword, identity.remote.ip(), self.out),
            Keyword::LocalPort(offset) => {
                write_i64(self.out, i64::from(identity.local.port()) + i64::from(*offset));
            }
            Keyword::RemotePort(offset) => {
                write_i64(self.out, i64::from(identity.remote.port()) + i64::from(*offset));
            }
            Keyword::DynamicId(_) => {
                write_i64(self.out, env.prepared.next_dynamic_id(env.options.behaviour.dynamic));
            }
            Keyword::ClockTick => {
                write_u64(self.out, self.ctx.now.since(env.started).as_millis() as u64);
            }
            Keyword::Users => write_u64(self.out, self.ctx.users.into()),
            Keyword::UserId => write_u64(self.out, identity.user.into()),
            Keyword::Timestamp => date::write_timestamp(self.out, self.ctx.now),
            Keyword::Date => date::write_http_date(self.out, self.ctx.now),
            Keyword::TdmMap => {
                let circuit = tdm_map(&env.options, identity.number)?;
                self.out.extend_from_slice(circuit.as_bytes());
            }
            Keyword::Key(name) => return Err(prepare::unknown(name)),
            // Every other one is written in `keyword`, or constant.
            _ => return Err(format!("no value for {keyword:?}")),
        }
        Ok(())
    }

    /// RFC 3261 §8.1.1.7: the cookie, then process, call and step, so that a branch is unique and a retransmission has the same.
    fn branch(&mut self, offset: i32) {
        let index = match self.index {
            IN_ACTION => self.call.position as i64 - 1,
            index => index,
        };
        self.out.extend_from_slice(b"z9hG4bK-");
        write_u64(self.out, self.ctx.env.pid.into());
        self.out.push(b'-');
        write_u64(self.out, self.call.identity.number);
        self.out.push(b'-');
        write_i64(self.out, index + i64::from(offset));
    }

    /// The keywords of the last received message; nothing before one was received.
    fn last(&mut self, keyword: &Keyword) {
        let message = self.call.last_received.as_deref().unwrap_or_default();
        if matches!(keyword, Keyword::LastMessage) {
            return self.out.extend_from_slice(message);
        }
        let index = self.last.get_or_insert_with(|| header::HeaderIndex::of(message));
        match keyword {
            Keyword::LastRequestUri => self.out.extend_from_slice(header::last_request_uri(index, message)),
            Keyword::LastCseqNumber(offset) => {
                write_i64(self.out, header::last_cseq(index, message) + i64::from(*offset));
            }
            Keyword::Last(name) => {
                header::write_last(self.out, index, message, name);
                self.swallow_if_line_start();
            }
            Keyword::LastValue(name) => {
                header::write_last_value(self.out, index, message, name);
                self.swallow_if_line_start();
            }
            _ => {}
        }
    }

    /// The Route header kept by `rrs`.
    fn routes(&mut self) {
        if let Some(routes) = &self.call.routes {
            self.out.extend_from_slice(&routes.header);
        }
        self.swallow_if_line_start();
    }

    /// `[$name]`.
    fn variable(&mut self, variable: VarRef) {
        value::with(self.call, self.ctx, variable, |value| value.write_to(self.out));
        self.swallow_if_line_start();
    }

    /// `[fill variable= text=]`: the text repeated up to as many characters as the variable says.
    fn fill(&mut self, text: &[u8], variable: VarRef) {
        // More than a datagram or a frame carries serves nothing.
        let length = value::with(self.call, self.ctx, variable, VariableValue::as_operand)
            .clamp(0.0, 1_000_000.0) as usize;
        let text = if text.is_empty() { b"X" } else { text };
        self.out.extend(text.iter().cycle().take(length));
    }

    /// The port is opened by the media at its first use.
    fn media_port(&mut self, keyword: &Keyword) -> Result<(), String> {
        let (kind, offset) = match keyword {
            Keyword::AutoMediaPort(offset) => (PortKind::Auto, *offset),
            Keyword::RtpStreamAudioPort(offset) => (PortKind::StreamAudio, *offset),
            Keyword::RtpStreamVideoPort(offset) => (PortKind::StreamVideo, *offset),
            Keyword::MediaPort(offset) => (PortKind::Fixed, *offset),
            _ => (PortKind::Fixed, 0),
        };
        let port = self.ctx.media.port(self.call.identity.number, kind, offset)?;
        write_u64(self.out, port.into());
        Ok(())
    }

    /// A template on its own: nothing of this message shows in it.
    fn scratch(&mut self, template: &Template) -> Result<Vec<u8>, String> {
        let mut text = Vec::new();
        super::text(self.call, self.ctx, template, &mut text)?;
        Ok(text)
    }

    /// `line=` of a field: its leading number as C reads one, and 0 without.
    pub(super) fn line_number(&mut self, template: &Template) -> Result<u32, String> {
        let text = self.scratch(template)?;
        let text = text.trim_ascii_start();
        if text.starts_with(b"-") {
            // A look-up without a hit gives no line.
            return Ok(NO_LINE);
        }
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
        Ok(digits
            .fold(0u32, |number, digit| number.saturating_mul(10).saturating_add(u32::from(digit - b'0'))))
    }

    /// `line`: the one asked for, else the one the file gave this call.
    pub(super) fn field(&mut self, file: usize, field: u32, line: Option<u32>) -> Result<(), String> {
        let at = self.out.len();
        let line = line.unwrap_or_else(|| self.call.lines.get(file).copied().unwrap_or(NO_LINE));
        self.ctx.env.files.write_field(file, line, field, self.out)?;
        if let Some(start) = memchr::memmem::find(&self.out[at..], b"[authentication") {
            self.injected_authentication(at + start)?;
        }
        self.swallow_if_line_start();
        Ok(())
    }

    /// A field that holds `[authentication …]`: the keyword is cut out and the credentials go there.
    fn injected_authentication(&mut self, start: usize) -> Result<(), String> {
        let Some(length) = memchr::memchr(b']', &self.out[start..]) else {
            return Err("an injected [authentication has no ]".to_owned());
        };
        let secrets = auth::parse_keyword(&self.out[start..start + length]);
        self.out.drain(start..=start + length);
        self.credentials_at(start, secrets)
    }

    /// The credentials are computed when the whole message is there, as they may cover its body.
    fn authentication(&mut self, params: &AuthParams) -> Result<(), String> {
        let mut secrets = Secrets::default();
        for (template, value) in [
            (&params.username, &mut secrets.username),
            (&params.password, &mut secrets.password),
            (&params.aka_k, &mut secrets.aka_k),
            (&params.aka_op, &mut secrets.aka_op),
            (&params.aka_amf, &mut secrets.aka_amf),
        ] {
            if let Some(template) = template {
                *value = Some(self.scratch(template)?);
            }
        }
        self.credentials_at(self.out.len(), secrets)
    }

    fn credentials_at(&mut self, at: usize, secrets: Secrets) -> Result<(), String> {
        if self.credentials.is_some() {
            return Err("only one [authentication] in a message".to_owned());
        }
        // A byte holds the place, or the line ends around it would look like the end of the headers.
        self.out.insert(at, b'?');
        self.credentials = Some((at, secrets));
        Ok(())
    }

    /// Computes the answer to the challenge kept by `auth="true"` and puts it where the keyword stood.
    pub(super) fn place_credentials(&mut self, at: usize, secrets: &Secrets) -> Result<(), String> {
        let message = &self.out[self.start..];
        let headers = memchr::memmem::find(message, b"\r\n\r\n").unwrap_or(message.len());
        if at - self.start > headers {
            return Err("[authentication] belongs in the headers, not in the body".to_owned());
        }
        let Some(challenge) = self.call.challenge.as_deref_mut() else {
            return Err(
                "[authentication] without a challenge: no message with auth=\"true\" came before".to_owned()
            );
        };
        let env = self.ctx.env;
        let options = &env.options.call;
        let remote = self.call.identity.remote;
        let uri = match &options.auth_uri {
            Some(uri) => format!("sip:{uri}"),
            None => format!("sip:{remote}"),
        };
        // The method is the first word of the message in hand.
        let request = auth::SignedRequest {
            method: message.split(|byte| *byte == b' ').next().unwrap_or_default(),
            uri: uri.as_bytes(),
            body: message.get(headers + 4..).unwrap_or_default(),
        };
        let defaults = auth::Defaults {
            username: options.username.as_deref().unwrap_or(&options.service).as_bytes(),
            password: options.password.as_bytes(),
        };
        let cnonce = self.ctx.rng.next_u64();
        let value =
            auth::answer(&challenge.values, challenge.count.max(1), secrets, &defaults, &request, cnonce)?;
        challenge.count = challenge.count.max(1).saturating_add(1);
        let name: &[u8] = if challenge.proxy { b"Proxy-Authorization: " } else { b"Authorization: " };
        self.out.splice(at..=at, name.iter().copied().chain(value));
        Ok(())
    }
}

/// `[tdmmap]`: the circuit of a call out of `-tdmmap {a-b}{c}{d-e}{f-g}`, by its number.
pub(super) fn tdm_map(options: &Options, number: u64) -> Result<String, String> {
    let Some(map) = &options.behaviour.tdmmap else {
        return Err("[tdmmap] without -tdmmap {a-b}{c}{d-e}{f-g}".to_owned());
    };
    let mut bounds = map.split(|character: char| !character.is_ascii_digit()).filter(|part| !part.is_empty());
    let mut next = || bounds.next().and_then(|part| part.parse::<u64>().ok());
    let (Some(x), Some(x_end), Some(h), Some(y), Some(y_end), Some(z), Some(z_end)) =
        (next(), next(), next(), next(), next(), next(), next())
    else {
        return Err(format!("-tdmmap {map}: expected {{a-b}}{{c}}{{d-e}}{{f-g}}"));
    };
    let width = |low: u64, high: u64| high.saturating_sub(low).saturating_add(1);
    let (a, b, c) = (width(x, x_end), width(y, y_end), width(z, z_end));
    // The last part counts fastest, then the one before it.
    let circuit = number.saturating_sub(1);
    Ok(format!("{}.{h}.{}/{}", x + circuit / b.saturating_mul(c) % a, y + circuit / c % b, z + circuit % c))
}

const _: () = assert!(NO_STEP != IN_ACTION);
