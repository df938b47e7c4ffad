//! The state of a compilation: mistakes, variables, counters, transactions; and typed reading of attributes.

use std::collections::HashMap;

use super::super::lexicon::{AttributeDoc, nearest};
use super::super::model::{Scope, StepIndex, VarRef, Variables};
use super::super::template::Template;
use super::super::template_parser::{self, TemplateError, TrimmedMessage, VariableResolver};
use super::super::xml::{Element, text};
use super::CompileError;

/// The most mistakes in one report: a file that is no scenario must not fill the memory with them.
const MAX_REPORTED: usize = 1000;

/// A node of the document with the attributes it may have.
#[derive(Clone, Copy)]
pub(super) struct ElementNode<'a> {
    /// As the XML has it.
    pub(super) element: &'a Element,
    /// The tables of attributes that it may have.
    known: [&'static [AttributeDoc]; 3],
}

/// An attribute as written.
#[derive(Clone, Copy)]
pub(super) struct AttributeValue<'a> {
    /// The attribute.
    pub(super) name: &'static str,
    /// The value as written, which may be ISO-8859-1.
    pub(super) bytes: &'a [u8],
    /// The line of the attribute.
    pub(super) line: u32,
}

impl AttributeValue<'_> {
    pub(super) fn text(&self) -> String {
        text(self.bytes)
    }
}

impl<'a> ElementNode<'a> {
    pub(super) fn new(element: &'a Element, known: [&'static [AttributeDoc]; 3]) -> Self {
        ElementNode { element, known }
    }

    pub(super) fn line(&self) -> u32 {
        self.element.line
    }

    /// The first attribute of that name, which must be in the tables: what they lack cannot be read.
    pub(super) fn get(&self, name: &'static str) -> Option<AttributeValue<'a>> {
        debug_assert!(self.knows(name), "`{name}` of <{}> is not in the lexicon", self.element.name);
        let found = self.element.attributes.iter().find(|attribute| attribute.name == name)?;
        Some(AttributeValue { name, bytes: &found.value, line: found.line })
    }

    fn knows(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.known.into_iter().flatten().map(|attribute| attribute.name)
    }
}

/// A transaction's uses, to tell one that can never work.
#[derive(Debug, Default)]
pub(super) struct TransactionUsage {
    /// The line of the first use.
    pub(super) line: u32,
    /// `start_txn` of a `<send>`.
    pub(super) started: u32,
    /// `response_txn` of a `<recv>`.
    pub(super) responses: u32,
    /// `ack_txn`.
    pub(super) acks: u32,
    /// Its request is an INVITE.
    pub(super) invite: bool,
    /// `start_txn` of a `<recv>`.
    pub(super) kept: u32,
    /// `response_txn` of a `<send>`.
    pub(super) answered: u32,
}

/// Labels that are defined, and uses whose label may come later.
#[derive(Debug, Default)]
pub(super) struct Labels {
    /// In the order of the document.
    pub(super) defined: Vec<(String, StepIndex)>,
    /// The same by name.
    index: HashMap<String, StepIndex>,
    /// Uses, to be resolved at the end.
    wanted: Vec<WantedLabel>,
}

/// A `next` or `ontimeout` whose label may stand further down.
#[derive(Debug)]
pub(super) struct WantedLabel {
    /// The step that uses it.
    pub(super) step: StepIndex,
    /// `next` or `ontimeout`.
    pub(super) attribute: &'static str,
    pub(super) name: String,
    pub(super) line: u32,
}

impl Labels {
    /// False: the name is taken.
    pub(super) fn define(&mut self, name: &str, step: StepIndex) -> bool {
        if self.index.contains_key(name) {
            return false;
        }
        self.index.insert(name.to_owned(), step);
        self.defined.push((name.to_owned(), step));
        true
    }

    pub(super) fn want(&mut self, step: StepIndex, value: AttributeValue<'_>) {
        let wanted = WantedLabel { step, attribute: value.name, name: value.text(), line: value.line };
        self.wanted.push(wanted);
    }

    pub(super) fn take_wanted(&mut self) -> Vec<WantedLabel> {
        std::mem::take(&mut self.wanted)
    }

    pub(super) fn find(&self, name: &str) -> Option<StepIndex> {
        self.index.get(name).copied()
    }
}

/// The uses of a variable: one that is used once is probably a typing error.
#[derive(Debug, Clone, Copy)]
struct VariableUsage {
    /// Its scope and slot.
    variable: VarRef,
    uses: u32,
    /// The line of its first use.
    line: u32,
}

/// Errors, warnings, and tables of names, which all parts of the compiler add to.
#[derive(Default)]
pub(super) struct CompileContext {
    pub(super) file: String,
    /// At most `MAX_REPORTED`, as the warnings.
    pub(super) errors: Vec<CompileError>,
    pub(super) warnings: Vec<CompileError>,
    pub(super) variables: Variables,
    /// Variables by name.
    usages: HashMap<String, VariableUsage>,
    /// Response-time counters.
    pub(super) rtds: NameTable,
    /// `counter=`.
    pub(super) counters: NameTable,
    /// Names of transactions, the peer's among them.
    pub(super) transactions: NameTable,
    /// By slot of `transactions`.
    pub(super) transaction_uses: Vec<TransactionUsage>,
    /// `hiderest` so far.
    pub(super) hide: bool,
}

/// Names in order of appearance; [`crate::scenario::model::ScenarioStep`]s hold the index.
#[derive(Debug, Default)]
pub(super) struct NameTable {
    pub(super) list: Vec<String>,
    index: HashMap<String, u16>,
}

impl NameTable {
    /// `None`: more than a step can number.
    pub(super) fn slot(&mut self, name: &str) -> Option<u16> {
        if let Some(&slot) = self.index.get(name) {
            return Some(slot);
        }
        let slot = u16::try_from(self.list.len()).ok()?;
        self.list.push(name.to_owned());
        self.index.insert(name.to_owned(), slot);
        Some(slot)
    }
}

impl CompileContext {
    pub(super) fn new(file: String) -> Self {
        CompileContext { file, ..CompileContext::default() }
    }

    pub(super) fn error(&mut self, line: u32, message: impl Into<String>) {
        if self.errors.len() < MAX_REPORTED {
            self.errors.push(CompileError { file: self.file.clone(), line, message: message.into() });
        }
    }

    pub(super) fn warn(&mut self, line: u32, message: impl Into<String>) {
        if self.warnings.len() < MAX_REPORTED {
            self.warnings.push(CompileError { file: self.file.clone(), line, message: message.into() });
        }
    }

    /// SIPp ignores what it does not know, so this only warns.
    pub(super) fn warn_unknown_attributes(&mut self, node: ElementNode<'_>) {
        let element = &node.element.name;
        for attribute in &node.element.attributes {
            if node.knows(&attribute.name) {
                continue;
            }
            let hint = nearest(&attribute.name, node.names())
                .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            let message = format!("`{}` means nothing on <{element}> and is ignored{hint}", attribute.name);
            self.warn(attribute.line, message);
        }
    }

    // Variables.

    pub(super) fn declare(&mut self, scope: Scope, name: &str, line: u32) {
        if let Err(message) = self.allocate(scope, name, line) {
            self.error(line, message);
        }
    }

    /// The variable of that name: a declared one, else one of the call's own.
    pub(super) fn variable(&mut self, name: &str, line: u32) -> Result<VarRef, String> {
        self.allocate(Scope::Call, name, line)
    }

    /// The variable by its name, counted as used once more; a new one gets a slot of this scope.
    fn allocate(&mut self, scope: Scope, name: &str, line: u32) -> Result<VarRef, String> {
        check_variable_name(name)?;
        if let Some(usage) = self.usages.get_mut(name) {
            usage.uses += 1;
            return Ok(usage.variable);
        }
        let variable = add_variable(&mut self.variables, scope, name)?;
        self.usages.insert(name.to_owned(), VariableUsage { variable, uses: 1, line });
        Ok(variable)
    }

    /// `<Reference>`: counts as a use of what exists.
    pub(super) fn reference(&mut self, name: &str, line: u32) {
        match self.usages.get_mut(name) {
            Some(usage) => usage.uses += 1,
            None => self.warn(line, format!("<Reference> names `{name}`, which is used nowhere before it")),
        }
    }

    pub(super) fn warn_variables_used_once(&mut self) {
        let mut once: Vec<(u32, String)> = self
            .usages
            .iter()
            // Variables of `_unexp.main` are used by the flow itself.
            .filter(|(name, usage)| usage.uses < 2 && !name.starts_with("_unexp."))
            .map(|(name, usage)| (usage.line, name.clone()))
            .collect();
        once.sort();
        for (line, name) in once {
            self.warn(
                line,
                format!("variable `{name}` is used only once (SIPp stops here; <Reference> quiets it)"),
            );
        }
    }

    // Attributes as types. A mistake is noted and `None` comes back.

    pub(super) fn required<'a>(
        &mut self,
        node: ElementNode<'a>,
        name: &'static str,
    ) -> Option<AttributeValue<'a>> {
        let value = node.get(name);
        if value.is_none() {
            self.error(
                node.line(),
                format!("<{}> without {name}=: expected {name}=\"…\"", node.element.name),
            );
        }
        value
    }

    pub(super) fn boolean(&mut self, node: ElementNode<'_>, name: &'static str) -> Option<bool> {
        let value = node.get(name)?;
        let written = value.text();
        let parsed = match written.to_ascii_lowercase().as_str() {
            "true" | "yes" => Some(true),
            "false" | "no" => Some(false),
            other => parse_integer(other).map(|number| number != 0),
        };
        if parsed.is_none() {
            self.error(value.line, format!("{name}=\"{written}\": expected true or false"));
        }
        parsed
    }

    pub(super) fn integer(&mut self, node: ElementNode<'_>, name: &'static str) -> Option<i64> {
        let value = node.get(name)?;
        let written = value.text();
        let parsed = parse_integer(&written);
        if parsed.is_none() {
            self.error(value.line, format!("{name}=\"{written}\": expected a whole number"));
        }
        parsed
    }

    /// A whole number that is not negative.
    pub(super) fn unsigned(&mut self, node: ElementNode<'_>, name: &'static str) -> Option<u64> {
        let number = self.integer(node, name)?;
        let converted = u64::try_from(number).ok();
        if converted.is_none() {
            self.error(node.line(), format!("{name}=\"{number}\": expected 0 or more"));
        }
        converted
    }

    pub(super) fn double(&mut self, node: ElementNode<'_>, name: &'static str) -> Option<f64> {
        let value = node.get(name)?;
        let written = value.text();
        let parsed = parse_double(&written);
        if parsed.is_none() {
            self.error(value.line, format!("{name}=\"{written}\": expected a number"));
        }
        parsed
    }

    pub(super) fn variable_of(&mut self, node: ElementNode<'_>, name: &'static str) -> Option<VarRef> {
        let value = node.get(name)?;
        let variable = self.variable(&value.text(), value.line);
        variable.map_err(|message| self.error(value.line, format!("{name}=: {message}"))).ok()
    }

    pub(super) fn required_variable(&mut self, node: ElementNode<'_>, name: &'static str) -> Option<VarRef> {
        self.required(node, name)?;
        self.variable_of(node, name)
    }

    pub(super) fn template_of(&mut self, value: AttributeValue<'_>) -> Option<Template> {
        self.cut(value.bytes, value.line)
    }

    pub(super) fn required_template(
        &mut self,
        node: ElementNode<'_>,
        name: &'static str,
    ) -> Option<Template> {
        let value = self.required(node, name)?;
        self.template_of(value)
    }

    /// Cuts a text whose first line is `line`.
    pub(super) fn cut(&mut self, source: &[u8], line: u32) -> Option<Template> {
        let mut resolve = |name: &str| self.variable(name, line);
        let cut = template_parser::cut(source, &mut resolve as &mut VariableResolver<'_>);
        cut.map_err(|errors| {
            for TemplateError { line: below, message } in errors {
                self.error(line + below, message);
            }
        })
        .ok()
    }

    /// The CDATA of an element, trimmed, with the line of what is left.
    pub(super) fn cdata(&mut self, element: &Element) -> Option<(TrimmedMessage, u32)> {
        let name = &element.name;
        let Some(chunk) = &element.cdata else {
            let message = match element.stray_text {
                Some(line) => {
                    format!("<{name}> has its text outside CDATA (line {line}): expected <![CDATA[ … ]]>")
                }
                None => format!("<{name}> without a message: expected <![CDATA[ … ]]>"),
            };
            self.error(element.line, message);
            return None;
        };
        let trimmed = template_parser::trim_cdata(&chunk.bytes);
        if trimmed.bytes.iter().all(u8::is_ascii_whitespace) {
            self.error(chunk.line, format!("the CDATA of <{name}> is empty: expected a message"));
            return None;
        }
        let line = chunk.line + trimmed.lines_before;
        Some((trimmed, line))
    }
}

/// `$` and `,` are the signs of a variable and of a list.
pub(super) fn check_variable_name(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("the name of a variable is empty".to_owned());
    }
    if name.contains(['$', ',']) {
        return Err(format!("`{name}` is no name of a variable: it may not contain $ or ,"));
    }
    Ok(())
}

/// A slot in the scope; more than 65,536 cannot be numbered.
pub(super) fn add_variable(variables: &mut Variables, scope: Scope, name: &str) -> Result<VarRef, String> {
    let names = match scope {
        Scope::Call => &mut variables.call,
        Scope::User => &mut variables.user,
        Scope::Global => &mut variables.global,
    };
    let slot = u16::try_from(names.len()).map_err(|_| "more than 65,536 variables".to_owned())?;
    names.push(name.to_owned());
    Ok(VarRef { scope, slot })
}

/// Decimal, or hexadecimal with `0x`: a leading 0 means nothing, as in SIPp's later versions. Empty is 0.
fn parse_integer(written: &str) -> Option<i64> {
    let text = written.trim_start();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    // A sign without digits is no number, an empty text is 0.
    if digits.is_empty() {
        return (digits.len() == text.len()).then_some(0);
    }
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let number = if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        i64::from_str_radix(hex, 16).ok()?
    } else {
        digits.parse().ok()?
    };
    Some(if negative { -number } else { number })
}

/// An empty text is 0, as C reads it.
fn parse_double(written: &str) -> Option<f64> {
    let text = written.trim_start();
    if text.is_empty() {
        return Some(0.0);
    }
    text.parse().ok().filter(|number: &f64| number.is_finite())
}
