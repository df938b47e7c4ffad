//! Templates specialised for a run: constants become literals, literals become one, names become indexes.
//!
//! Once a run and scenario: every template is folded into operations, and every mistake that a message would make is found here, with the line of
//! its step, before the first call.

use std::io::Write as _;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::visit::templates_of;
use super::{IN_ACTION, NO_STEP, SIPP_VERSION};
use crate::inject::InjectionFiles;
use crate::options::Options;
use crate::scenario::Scenario;
use crate::scenario::model::{ScenarioSource, StepKind};
use crate::scenario::template::{Keyword, Template, TemplatePart};

/// Values that are known before the first call. `None`: the value differs from call to call.
#[derive(Debug, Clone, Default)]
pub struct Addresses {
    /// `[local_ip]`: `-i`.
    pub local_ip: Option<IpAddr>,
    /// `[local_port]`: `-p`.
    pub local_port: Option<u16>,
    /// `[remote_ip]`: the target of the command line.
    pub remote_ip: Option<IpAddr>,
    /// `[remote_port]`.
    pub remote_port: Option<u16>,
    /// `-mi`; `None`: the call's local address.
    pub media_ip: Option<IpAddr>,
    /// `[pid]`.
    pub pid: u32,
    /// How many `[dynamic_id]`s were given. Clones share it, so that shards with other addresses do not repeat one.
    pub dynamic_ids: Arc<AtomicU64>,
}

/// The messages of a scenario with the run's constants folded in (`[service]`, `[transport]`, `[pid]`, one local
/// address, …), by step. A clone is a pointer.
#[derive(Debug, Clone, Default)]
pub struct PreparedMessages {
    inner: Arc<PreparedInner>,
}

/// Shared by all shards that have the same addresses.
#[derive(Debug, Default)]
struct PreparedInner {
    /// By step; `None` for a step that sends nothing.
    messages: Vec<Option<PreparedMessage>>,
    /// Also for texts that are not prepared, such as those of actions.
    addresses: Addresses,
}

/// One message, ready to be rendered.
#[derive(Debug)]
pub(super) struct PreparedMessage {
    pub(super) ops: Vec<RenderOp>,
    /// The step for `[branch]`, or `NO_STEP` for a command.
    pub(super) index: i64,
}

/// One operation of a message.
#[derive(Debug, PartialEq)]
pub(super) enum RenderOp {
    /// The author's text, with adjacent constants merged into it.
    Text(Box<[u8]>),
    /// A constant behind a keyword that may give nothing: it does not lose its white space, what follows does.
    Fixed(Box<[u8]>),
    /// A value that differs from call to call.
    Keyword(Keyword),
    /// `[fieldN]`, with the file already found.
    Field {
        /// Index of the injection file.
        file: usize,
        /// The column, from 0.
        field: u32,
        /// `None`: the line that the file gave the call.
        line: Option<LineSelector>,
    },
    /// `[file name=]` with a name known beforehand: its content.
    File(Box<[u8]>),
}

/// `line=` of a field.
#[derive(Debug, PartialEq)]
pub(super) enum LineSelector {
    /// Known beforehand.
    Number(u32),
    /// Rendered for each message, as it depends on a variable.
    Template(Template),
}

impl PreparedMessages {
    /// An unknown keyword that is no `-key` either, a field of a file that was not given, or a file that cannot
    /// be read is an error that names it, its scenario and line.
    pub fn new(
        scenario: &Scenario,
        options: &Options,
        addresses: &Addresses,
        files: &InjectionFiles,
    ) -> Result<PreparedMessages, String> {
        let folding = MessageFolder { options, addresses, files };
        let mut messages = Vec::with_capacity(scenario.steps.len());
        for (index, step) in scenario.steps.iter().enumerate() {
            let at = |error| format!("{}:{}: {error}", name_of(&scenario.source), step.line);
            let message = match &step.kind {
                StepKind::Send(send) => Some((&send.message, index as i64)),
                StepKind::SendCmd { message, .. } => Some((message, NO_STEP)),
                _ => None,
            };
            messages.push(match message {
                None => None,
                Some((template, index)) => {
                    Some(PreparedMessage { ops: folding.fold(template, index).map_err(at)?, index })
                }
            });
            folding.check_actions(&step.actions, &scenario.source)?;
        }
        for step in &scenario.init {
            folding.check_actions(&step.actions, &scenario.source)?;
        }
        Ok(PreparedMessages { inner: Arc::new(PreparedInner { messages, addresses: addresses.clone() }) })
    }

    pub(super) fn message(&self, step: usize) -> Option<&PreparedMessage> {
        self.inner.messages.get(step)?.as_ref()
    }

    pub(super) fn addresses(&self) -> &Addresses {
        &self.inner.addresses
    }

    /// The next of `-dynamicStart`, `-dynamicStep` further each time, from the start again past `-dynamicMax`.
    pub(super) fn next_dynamic_id(&self, (start, max, step): (i64, i64, i64)) -> i64 {
        // A count only: nothing else is ordered by it.
        let drawn = self.inner.addresses.dynamic_ids.fetch_add(1, Ordering::Relaxed);
        let cycle = match max.saturating_sub(start).checked_div(step) {
            Some(steps) if steps >= 0 && step > 0 => steps as u64 + 1,
            _ => 1,
        };
        start.saturating_add(step.saturating_mul((drawn % cycle) as i64))
    }
}

fn name_of(source: &ScenarioSource) -> String {
    match source {
        ScenarioSource::File(path) => path.display().to_string(),
        ScenarioSource::BuiltIn(name) => (*name).to_owned(),
    }
}

/// The parts of a run that folding needs.
struct MessageFolder<'a> {
    options: &'a Options,
    addresses: &'a Addresses,
    files: &'a InjectionFiles,
}

impl MessageFolder<'_> {
    /// The operations of one template.
    fn fold(&self, template: &Template, index: i64) -> Result<Vec<RenderOp>, String> {
        let mut folded = OpBuilder::default();
        for part in &template.parts {
            match part {
                TemplatePart::Text(text) => folded.literal(text),
                TemplatePart::Keyword(keyword) => self.keyword(keyword, index, &mut folded)?,
            }
        }
        Ok(folded.finish())
    }

    /// Constants become text; a branch becomes text with the call's number in it; fields and files are resolved; the rest is checked and kept.
    fn keyword(&self, keyword: &Keyword, index: i64, folded: &mut OpBuilder) -> Result<(), String> {
        let mut constant = Vec::new();
        if write_constant(keyword, self.options, self.addresses, &mut constant) {
            folded.constant(&constant);
            return Ok(());
        }
        match keyword {
            Keyword::Branch(offset) => {
                let place = branch_index(index).map(|at| at + i64::from(*offset));
                let Some(place) = place else {
                    folded.op(RenderOp::Keyword(keyword.clone()));
                    return Ok(());
                };
                folded.constant(format!("z9hG4bK-{}-", self.addresses.pid).as_bytes());
                folded.op(RenderOp::Keyword(Keyword::CallNumber(0)));
                folded.constant(format!("-{place}").as_bytes());
            }
            Keyword::MsgIndex => folded.constant(index.to_string().as_bytes()),
            Keyword::Key(name) => return Err(unknown(name)),
            Keyword::Field { field, file, line } => {
                let file = find_file(self.files, file.as_deref())?;
                let line =
                    match line {
                        None => None,
                        Some(line) => {
                            self.check(line)?;
                            Some(constant_number(line).map_or_else(
                                || LineSelector::Template((**line).clone()),
                                LineSelector::Number,
                            ))
                        }
                    };
                folded.op(RenderOp::Field { file, field: *field, line });
            }
            Keyword::File(name) => match constant_text(&self.fold(name, IN_ACTION)?) {
                Some(name) => folded.op(RenderOp::File(read_file(&name)?)),
                None => folded.op(RenderOp::Keyword(keyword.clone())),
            },
            _ => {
                self.check_keyword(keyword)?;
                folded.op(RenderOp::Keyword(keyword.clone()));
            }
        }
        Ok(())
    }

    /// Checks the templates of actions, which are rendered as they are.
    fn check_actions(
        &self,
        actions: &[crate::scenario::action::Action],
        source: &ScenarioSource,
    ) -> Result<(), String> {
        for action in actions {
            for template in templates_of(&action.kind) {
                self.check(template)
                    .map_err(|error| format!("{}:{}: {error}", name_of(source), action.line))?;
            }
        }
        Ok(())
    }

    /// Says now what rendering would say at the first call.
    fn check(&self, template: &Template) -> Result<(), String> {
        for part in &template.parts {
            if let TemplatePart::Keyword(keyword) = part {
                self.check_keyword(keyword)?;
            }
        }
        Ok(())
    }

    fn check_keyword(&self, keyword: &Keyword) -> Result<(), String> {
        match keyword {
            Keyword::Key(name) if key(self.options, name).is_none() => Err(unknown(name)),
            Keyword::Field { file, line, .. } => {
                find_file(self.files, file.as_deref())?;
                line.as_ref().map_or(Ok(()), |line| self.check(line))
            }
            Keyword::File(name) => self.check(name),
            Keyword::TdmMap => super::keyword::tdm_map(self.options, 1).map(drop),
            Keyword::Authentication(params) => {
                let all =
                    [&params.username, &params.password, &params.aka_k, &params.aka_op, &params.aka_amf];
                all.into_iter().flatten().try_for_each(|template| self.check(template))
            }
            _ => Ok(()),
        }
    }
}

/// Writes what a keyword gives in every call of the run; `false` when that differs.
pub(super) fn write_constant(
    keyword: &Keyword,
    options: &Options,
    addresses: &Addresses,
    out: &mut Vec<u8>,
) -> bool {
    let text = match keyword {
        Keyword::Transport => options.network.transport.via_word(),
        Keyword::Service => &options.call.service,
        Keyword::SippVersion => SIPP_VERSION,
        Keyword::RemoteHost => match &options.remote {
            Some(remote) => &remote.host,
            None => return false,
        },
        // SIPp prints -1 here without `-users`.
        Keyword::Users if options.rate.users.is_none() => "-1",
        Keyword::UserId if options.rate.users.is_none() => "0",
        Keyword::Key(name) => match key(options, name) {
            Some(value) => value,
            None => return false,
        },
        _ => return write_constant_address(keyword, addresses, out),
    };
    out.extend_from_slice(text.as_bytes());
    true
}

/// Addresses and ports that are the same in all calls, and the process id.
fn write_constant_address(keyword: &Keyword, addresses: &Addresses, out: &mut Vec<u8>) -> bool {
    let media = addresses.media_ip.or(addresses.local_ip);
    let ip = match keyword {
        Keyword::LocalIp | Keyword::LocalIpType | Keyword::ServerIp => addresses.local_ip,
        Keyword::RemoteIp => addresses.remote_ip,
        Keyword::MediaIp | Keyword::MediaIpType => media,
        Keyword::LocalPort(offset) => return write_port(addresses.local_port, *offset, out),
        Keyword::RemotePort(offset) => return write_port(addresses.remote_port, *offset, out),
        Keyword::Pid => {
            super::number::write_u64(out, addresses.pid.into());
            return true;
        }
        _ => return false,
    };
    let Some(ip) = ip else { return false };
    write_ip(keyword, ip, out);
    true
}

fn write_port(port: Option<u16>, offset: i32, out: &mut Vec<u8>) -> bool {
    let Some(port) = port else { return false };
    super::number::write_i64(out, i64::from(port) + i64::from(offset));
    true
}

/// An address as the keyword shows it: SIPp brackets IPv6 in `[local_ip]` and `[remote_ip]` only.
pub(super) fn write_ip(keyword: &Keyword, ip: IpAddr, out: &mut Vec<u8>) {
    let written = match (keyword, ip) {
        (Keyword::LocalIpType | Keyword::MediaIpType, IpAddr::V4(_)) => out.write_all(b"4"),
        (Keyword::LocalIpType | Keyword::MediaIpType, IpAddr::V6(_)) => out.write_all(b"6"),
        (Keyword::LocalIp | Keyword::RemoteIp, IpAddr::V6(ip)) => write!(out, "[{ip}]"),
        (_, ip) => write!(out, "{ip}"),
    };
    written.expect("a vector takes every byte");
}

/// The step `[branch]` names; `None` when only the call knows it.
fn branch_index(index: i64) -> Option<i64> {
    (index != IN_ACTION).then_some(index)
}

/// The value of `-key NAME`.
pub(super) fn key<'o>(options: &'o Options, name: &str) -> Option<&'o str> {
    options.behaviour.keys.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// The message for a keyword that SIPp does not have.
pub(super) fn unknown(name: &str) -> String {
    format!("unknown keyword [{name}]: neither one of SIPp's nor given with -key {name} VALUE")
}

/// By name, or the first one when none is named.
pub(super) fn find_file(files: &InjectionFiles, name: Option<&str>) -> Result<usize, String> {
    match name {
        None if files.is_empty() => {
            Err("[field…] without an injection file: give one with -inf FILE".to_owned())
        }
        None => Ok(0),
        Some(name) => files
            .find(Path::new(name))
            .ok_or_else(|| format!("no injection file {name}: give it with -inf {name}")),
    }
}

/// Read once, when the name is known; otherwise for each message.
pub(super) fn read_file(name: &[u8]) -> Result<Box<[u8]>, String> {
    let name = String::from_utf8_lossy(name);
    let bytes =
        std::fs::read(&*name).map_err(|error| format!("[file name={name}] cannot be read: {error}"))?;
    Ok(bytes.into_boxed_slice())
}

/// The text of operations that are nothing else.
fn constant_text(ops: &[RenderOp]) -> Option<Box<[u8]>> {
    match ops {
        [RenderOp::Text(text)] => Some(text.clone()),
        _ => None,
    }
}

fn constant_number(template: &Template) -> Option<u32> {
    match template.parts.as_slice() {
        [TemplatePart::Text(text)] => std::str::from_utf8(text).ok()?.trim().parse().ok(),
        _ => None,
    }
}

/// Puts ops together, merging what is known.
#[derive(Default)]
struct OpBuilder {
    /// Finished operations.
    ops: Vec<RenderOp>,
    /// Text that is still being collected.
    text: Vec<u8>,
    /// A keyword that may swallow white space came after the last literal.
    may_swallow: bool,
}

impl OpBuilder {
    /// Text of the author: it may lose its white space to a keyword before it.
    fn literal(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
        self.may_swallow = false;
    }

    /// A value: behind a keyword that may swallow it must stay apart from the author's text.
    fn constant(&mut self, bytes: &[u8]) {
        if self.may_swallow {
            self.flush();
            self.ops.push(RenderOp::Fixed(bytes.into()));
        } else {
            self.text.extend_from_slice(bytes);
        }
    }

    fn op(&mut self, op: RenderOp) {
        self.flush();
        self.may_swallow |= matches!(
            op,
            RenderOp::Field { .. }
                | RenderOp::Keyword(
                    Keyword::Var(_) | Keyword::Last(_) | Keyword::LastValue(_) | Keyword::Routes
                )
        );
        self.ops.push(op);
    }

    fn flush(&mut self) {
        if !self.text.is_empty() {
            self.ops.push(RenderOp::Text(std::mem::take(&mut self.text).into_boxed_slice()));
        }
    }

    fn finish(mut self) -> Vec<RenderOp> {
        self.flush();
        self.ops
    }
}
