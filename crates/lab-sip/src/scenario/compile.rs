//! From XML text to a [`Scenario`].
//!
//! The order: `xml::read` makes a tree; each child of `<scenario>` is a command, which becomes a step (`steps`, `actions`), or a declaration;
//! then labels are resolved, transactions and variables checked, and `needs` finds the parts of messages that calls must keep. Mistakes are
//! collected in the [`CompileContext`], and the scenario is made only without any.

mod actions;
mod context;
mod needs;
mod steps;

use std::fmt;
use std::path::Path;

use self::context::{
    CompileContext, ElementNode, Labels, TransactionUsage, add_variable, check_variable_name,
};
use super::lexicon::{ELEMENTS, ElementDoc, ElementName, SCENARIO, nearest};
use super::model::{
    DefaultMessages, Role, Scenario, ScenarioSource, ScenarioStep, Scope, StepFlow, StepKind, VarRef,
    Variables,
};
use super::template::Template;
use super::template_parser::{self, VariableResolver};
use super::xml::{self, Element};

/// A mistake in a scenario: file, line, what was found and what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    /// The path, or the built-in's name.
    pub file: String,
    /// Counted from 1; 0 when it is about the whole file.
    pub line: u32,
    /// The text that was found and the text that was expected.
    pub message: String,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for CompileError {}

/// A scenario and what a careful author would want to hear of (a variable used once, …).
#[derive(Debug)]
pub struct CompiledScenario {
    /// The scenario, ready to run.
    pub scenario: Scenario,
    /// Oddities that do not prevent a run.
    pub warnings: Vec<CompileError>,
}

/// Scenarios larger than this are no scenarios; SIPp stops at 64 KiB.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// Every mistake found, not only the first.
pub fn compile_file(path: &Path) -> Result<CompiledScenario, Vec<CompileError>> {
    let fail = |message: String| vec![CompileError { file: path.display().to_string(), line: 0, message }];
    let size = std::fs::metadata(path).map_err(|error| fail(format!("cannot be read: {error}")))?.len();
    if size > MAX_BYTES {
        return Err(fail(format!("{size} bytes are no scenario: expected at most {MAX_BYTES}")));
    }
    let bytes = std::fs::read(path).map_err(|error| fail(format!("cannot be read: {error}")))?;
    compile_text(&bytes, ScenarioSource::File(path.to_owned()))
}

/// Bytes may be ISO-8859-1.
pub fn compile_text(bytes: &[u8], source: ScenarioSource) -> Result<CompiledScenario, Vec<CompileError>> {
    let file = match &source {
        ScenarioSource::File(path) => path.display().to_string(),
        ScenarioSource::BuiltIn(name) => (*name).to_owned(),
    };
    let document = xml::read(bytes).map_err(|mistake| {
        vec![CompileError { file: file.clone(), line: mistake.line, message: mistake.message }]
    })?;
    let mut compiler = Compiler::new(file);
    compiler.document(&document);
    compiler.finish(source, xml::text(bytes))
}

/// A template outside a scenario: `[authentication]` out of an injection file, an action's argument.
/// `variables` gains names that were not known.
pub fn compile_template(text: &[u8], variables: &mut Variables) -> Result<Template, String> {
    let mut resolve = |name: &str| find_or_add(variables, name);
    template_parser::cut(text, &mut resolve as &mut VariableResolver<'_>)
        .map_err(|mut errors| errors.swap_remove(0).message)
}

fn find_or_add(variables: &mut Variables, name: &str) -> Result<VarRef, String> {
    check_variable_name(name)?;
    let scopes =
        [(Scope::Global, &variables.global), (Scope::User, &variables.user), (Scope::Call, &variables.call)];
    for (scope, names) in scopes {
        if let Some(slot) =
            names.iter().position(|known| known == name).and_then(|slot| u16::try_from(slot).ok())
        {
            return Ok(VarRef { scope, slot });
        }
    }
    add_variable(variables, Scope::Call, name)
}

/// The state of one compilation: steps and variables so far.
#[derive(Default)]
struct Compiler {
    /// Mistakes, warnings and tables of names.
    context: CompileContext,
    /// `name=` of `<scenario>`.
    name: String,
    /// Commands so far.
    steps: Vec<ScenarioStep>,
    /// Steps of `<init>`, with labels of their own.
    init: Vec<ScenarioStep>,
    /// Labels of the steps.
    labels: Labels,
    /// Labels within `<init>`.
    init_labels: Labels,
    /// Bounds of `<ResponseTimeRepartition>`, milliseconds.
    response_times: Vec<u32>,
    /// Bounds of `<CallLengthRepartition>`, milliseconds.
    call_lengths: Vec<u32>,
    /// Messages of `<DefaultMessage>`.
    defaults: DefaultMessages,
    /// Line of a `<timewait>`, which must be last.
    time_wait: Option<u32>,
    /// Line of an optional `<recv>` that no mandatory one has followed yet.
    open_optional: Option<u32>,
}

impl Compiler {
    fn new(file: String) -> Self {
        Compiler { context: CompileContext::new(file), ..Compiler::default() }
    }

    /// The whole document. A wrong root ends the compilation: everything below would be a mistake.
    fn document(&mut self, document: &xml::Document) {
        let root = &document.root;
        if root.name != "scenario" {
            self.context.error(root.line, format!("<{}> at the top: expected <scenario>", root.name));
            return;
        }
        if document.root_is_open {
            self.context.warn(root.line, xml::never_closed(root));
        }
        if let Some(line) = document.second_root {
            self.context.error(line, "an element after </scenario>: expected the end of the file");
        }
        let node = ElementNode::new(root, [SCENARIO, &[], &[]]);
        self.name = node.get("name").map(|value| value.text()).unwrap_or_default();
        for child in &root.children {
            match ELEMENTS.iter().find(|doc| doc.name == child.name) {
                Some(doc) if doc.command => self.command(child, doc),
                Some(doc) => self.declaration(child, doc),
                None => self.unknown(child),
            }
        }
        // Labels may stand behind their use, so these checks need all steps.
        self.resolve_labels();
        self.check_transactions();
        self.context.warn_variables_used_once();
        if self.steps.is_empty() {
            self.context
                .error(root.line, "a scenario without steps: expected <send>, <recv> or another command");
        }
    }

    /// SIPp stops at an unknown element, and so do we: it may be a misspelt command.
    fn unknown(&mut self, element: &Element) {
        let names = || ELEMENTS.iter().map(|doc| doc.name);
        let hint = nearest(&element.name, names()).map_or_else(
            || format!("expected one of {}", list(names())),
            |near| format!("did you mean <{near}>?"),
        );
        self.context.error(element.line, format!("<{}> is no element of a scenario: {hint}", element.name));
    }

    /// A step. An optional `<recv>` must be followed by a mandatory one before anything else happens, as in SIPp.
    fn command(&mut self, element: &Element, doc: &ElementDoc) {
        let line = element.line;
        if let Some(last) = self.time_wait {
            let message =
                format!("<{}> after the <timewait> of line {last}, which must be the last step", doc.name);
            self.context.error(line, message);
        }
        let receives = matches!(doc.id, ElementName::Recv | ElementName::RecvCmd);
        if !receives && let Some(optional) = self.open_optional.take() {
            let message = format!(
                "<{}> after an optional <recv> (line {optional}): expected a mandatory one before it",
                doc.name
            );
            self.context.error(line, message);
        }
        let step = steps::step(&mut self.context, element, doc, self.steps.len(), &mut self.labels);
        if receives {
            self.open_optional = is_optional(&step.kind).then_some(line);
        }
        if doc.id == ElementName::TimeWait {
            self.time_wait.get_or_insert(line);
        }
        self.steps.push(step);
    }

    /// An element that is no step.
    fn declaration(&mut self, element: &Element, doc: &ElementDoc) {
        let node = ElementNode::new(element, [doc.attributes, &[], &[]]);
        self.context.warn_unknown_attributes(node);
        match doc.id {
            ElementName::Label => label(&mut self.context, node, self.steps.len(), &mut self.labels),
            ElementName::Init => self.init(element),
            ElementName::Global => self.declare(node, Scope::Global),
            ElementName::User => self.declare(node, Scope::User),
            ElementName::Reference => {
                let names = names(&mut self.context, node);
                names.iter().for_each(|name| self.context.reference(name, element.line));
            }
            ElementName::DefaultMessage => self.default_message(node),
            ElementName::ResponseTimeRepartition => {
                self.response_times = bounds(&mut self.context, node).unwrap_or_default();
            }
            _ => self.call_lengths = bounds(&mut self.context, node).unwrap_or_default(),
        }
    }

    /// `<Global>` and `<User>`.
    fn declare(&mut self, node: ElementNode<'_>, scope: Scope) {
        for name in names(&mut self.context, node) {
            self.context.declare(scope, &name, node.line());
        }
    }

    /// `<init>` has actions only: no call exists yet.
    fn init(&mut self, element: &Element) {
        for child in &element.children {
            let doc = ELEMENTS.iter().find(|doc| doc.name == child.name);
            match doc.map(|doc| (doc.id, doc)) {
                Some((ElementName::Nop, doc)) => {
                    let step =
                        steps::step(&mut self.context, child, doc, self.init.len(), &mut self.init_labels);
                    self.init.push(step);
                }
                Some((ElementName::Label, doc)) => {
                    let node = ElementNode::new(child, [doc.attributes, &[], &[]]);
                    label(&mut self.context, node, self.init.len(), &mut self.init_labels);
                }
                _ => {
                    let message = format!("<{}> in <init>: expected <nop> or <label>", child.name);
                    self.context.error(child.line, message);
                }
            }
        }
    }

    /// A message that a call sends on its own account.
    fn default_message(&mut self, node: ElementNode<'_>) {
        let Some(id) = self.context.required(node, "id") else { return };
        let Some((trimmed, line)) = self.context.cdata(node.element) else { return };
        let message = self.context.cut(&trimmed.bytes, line);
        let slot = match id.bytes {
            b"3pcc_abort" => &mut self.defaults.three_pcc_abort,
            b"ack" => &mut self.defaults.ack,
            b"ack2" => &mut self.defaults.ack2,
            b"bye" => &mut self.defaults.bye,
            b"cancel" => &mut self.defaults.cancel,
            b"200" => &mut self.defaults.ok,
            _ => {
                let message =
                    format!("id=\"{}\": expected 3pcc_abort, ack, ack2, bye, cancel or 200", id.text());
                self.context.error(id.line, message);
                return;
            }
        };
        *slot = message;
    }

    fn resolve_labels(&mut self) {
        resolve(&mut self.context, &mut self.labels, &mut self.steps);
        resolve(&mut self.context, &mut self.init_labels, &mut self.init);
    }

    /// SIPp stops at each of these; only a transaction that never starts can never work.
    fn check_transactions(&mut self) {
        let uses = std::mem::take(&mut self.context.transaction_uses);
        for (slot, uses) in uses.into_iter().enumerate() {
            let name = self.context.transactions.list[slot].clone();
            if uses.kept > 0 && uses.started > 0 {
                let message = format!(
                    "transaction `{name}` is started by a <send> and by a <recv>: expected a name for each"
                );
                self.context.error(uses.line, message);
            } else if uses.kept > 0 || uses.answered > 0 {
                self.check_server_transaction(&name, &uses);
            } else if uses.started == 0 {
                let message = format!(
                    "transaction `{name}` is never started: expected start_txn=\"{name}\" on a <send>"
                );
                self.context.error(uses.line, message);
            } else if uses.responses == 0 {
                self.context
                    .warn(uses.line, format!("transaction `{name}` has no response_txn (SIPp stops here)"));
            } else if uses.invite && uses.acks == 0 {
                self.context
                    .warn(uses.line, format!("INVITE transaction `{name}` has no ack_txn (SIPp stops here)"));
            } else if !uses.invite && uses.acks > 0 {
                self.context.warn(
                    uses.line,
                    format!("transaction `{name}` is no INVITE but has an ack_txn (SIPp stops here)"),
                );
            }
        }
    }

    /// A transaction of the peer's: a `<recv>` keeps its request, a `<send>` answers it.
    fn check_server_transaction(&mut self, name: &str, uses: &TransactionUsage) {
        if uses.kept == 0 {
            let message = format!(
                "transaction `{name}` has no request to answer: expected start_txn=\"{name}\" on a <recv>"
            );
            self.context.error(uses.line, message);
        } else if uses.answered == 0 {
            self.context.warn(
                uses.line,
                format!("transaction `{name}` is never answered: no <send> has its response_txn"),
            );
        }
        if uses.responses > 0 || uses.acks > 0 {
            let message = format!(
                "transaction `{name}` is the peer's: response_txn= of a <recv> and ack_txn= are for our own requests"
            );
            self.context.error(uses.line, message);
        }
    }

    /// The scenario, or all mistakes in the order of their lines.
    fn finish(mut self, source: ScenarioSource, text: String) -> Result<CompiledScenario, Vec<CompileError>> {
        let role = role(&self.steps);
        if role.is_none() && self.context.errors.is_empty() {
            self.context
                .error(0, "neither client nor server: expected a <send>, <recv>, <sendCmd> or <recvCmd>");
        }
        let (Some(role), true) = (role, self.context.errors.is_empty()) else {
            self.context.errors.sort_by_key(|error| error.line);
            return Err(self.context.errors);
        };
        let context = self.context;
        let scenario = Scenario {
            name: self.name,
            source,
            role,
            needs: needs::of(&self.steps, &self.init, &self.defaults),
            steps: self.steps,
            init: self.init,
            labels: self.labels.defined,
            variables: context.variables,
            transactions: context.transactions.list,
            rtds: context.rtds.list,
            response_times: self.response_times,
            call_lengths: self.call_lengths,
            counters: context.counters.list,
            defaults: self.defaults,
            text,
        };
        let mut warnings = context.warnings;
        warnings.sort_by_key(|warning| warning.line);
        Ok(CompiledScenario { scenario, warnings })
    }
}

fn is_optional(kind: &StepKind) -> bool {
    match kind {
        StepKind::Recv(recv) => recv.optional != super::model::Optional::No,
        StepKind::RecvCmd { optional, .. } => *optional,
        _ => false,
    }
}

/// A label names the step that follows it.
fn label(context: &mut CompileContext, node: ElementNode<'_>, at: usize, labels: &mut Labels) {
    let Some(value) = context.required(node, "id") else { return };
    let name = value.text();
    if !labels.define(&name, at) {
        context.error(value.line, format!("label `{name}` is defined twice"));
    }
}

/// Enters the steps that labels name; a label that is not there is a mistake.
fn resolve(context: &mut CompileContext, labels: &mut Labels, steps: &mut [ScenarioStep]) {
    for required_label in labels.take_wanted() {
        let Some(target) = labels.find(&required_label.name) else {
            let near = nearest(&required_label.name, labels.defined.iter().map(|(name, _)| name.as_str()))
                .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            let message = format!(
                "{0}=\"{1}\": no such label, expected <label id=\"{1}\"/>{near}",
                required_label.attribute, required_label.name
            );
            context.error(required_label.line, message);
            continue;
        };
        let flow: &mut StepFlow = &mut steps[required_label.step].flow;
        match required_label.attribute {
            "next" => flow.next = Some(target),
            _ => flow.on_timeout = Some(target),
        }
    }
}

/// `variables="a,b"`.
fn names(context: &mut CompileContext, node: ElementNode<'_>) -> Vec<String> {
    let Some(value) = context.required(node, "variables") else { return Vec::new() };
    let written = value.text();
    written.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// `value="10, 20, 50"`: milliseconds.
fn bounds(context: &mut CompileContext, node: ElementNode<'_>) -> Option<Vec<u32>> {
    let value = context.required(node, "value")?;
    let written = value.text();
    let bounds: Result<Vec<u32>, _> = written.split(',').map(|bound| bound.trim().parse()).collect();
    bounds
        .map_err(|_| {
            let message =
                format!("value=\"{written}\": expected milliseconds separated by commas, as in 10, 20, 50");
            context.error(value.line, message);
        })
        .ok()
}

/// The role of the scenario, from its first step that is no pause and no nop, as SIPp decides it.
fn role(steps: &[ScenarioStep]) -> Option<Role> {
    let mut messages = steps.iter().map(|step| &step.kind).filter(|kind| {
        matches!(
            kind,
            StepKind::Send(_) | StepKind::Recv(_) | StepKind::SendCmd { .. } | StepKind::RecvCmd { .. }
        )
    });
    let client = match messages.clone().next()? {
        StepKind::Send(_) | StepKind::SendCmd { .. } => true,
        StepKind::RecvCmd { .. } => return Some(Role::ControllerB),
        _ => false,
    };
    let first_command =
        messages.find(|kind| matches!(kind, StepKind::SendCmd { .. } | StepKind::RecvCmd { .. }));
    Some(match (client, first_command) {
        (true, Some(StepKind::SendCmd { .. })) => Role::ControllerA,
        (true, _) => Role::Client,
        (false, _) => Role::Server,
    })
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
