//! From XML text to a [`Scenario`].

use std::fmt;
use std::path::Path;

use super::model::{Scenario, Source, Variables};
use super::template::Template;

/// A mistake in a scenario: file, line, what was found and what was expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    pub file: String,
    pub line: u32,
    pub message: String,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

impl std::error::Error for CompileError {}

/// A scenario and what a careful author would want to hear of (a variable used once, …).
#[derive(Debug)]
pub struct Compiled {
    pub scenario: Scenario,
    pub warnings: Vec<CompileError>,
}

/// Every mistake found, not only the first.
pub fn compile_file(path: &Path) -> Result<Compiled, Vec<CompileError>> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| {
        vec![CompileError { file: name, line: 0, message: format!("cannot be read: {error}") }]
    })?;
    compile_text(&bytes, Source::File(path.to_owned()))
}

/// Bytes may be ISO-8859-1.
pub fn compile_text(_bytes: &[u8], source: Source) -> Result<Compiled, Vec<CompileError>> {
    let file = source.stem();
    Err(vec![CompileError { file, line: 0, message: "not built".to_owned() }])
}

/// The XML of a scenario that comes with the program: `uac`, `uas`, `regexp`, `branchc`, `branchs`, `uac_pcap`,
/// `3pcc-C-A`, `3pcc-C-B`, `3pcc-A`, `3pcc-B`, `ooc_default`, `ooc_dummy`.
pub fn built_in(_name: &str) -> Option<&'static str> {
    None
}

/// A template outside a scenario: `[authentication]` out of an injection file, an action's argument.
/// `variables` gains names that were not known.
pub fn compile_template(_text: &[u8], _variables: &mut Variables) -> Result<Template, String> {
    Err("not built".to_owned())
}
