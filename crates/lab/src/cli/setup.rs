//! Everything a run needs, compiled and loaded before anything is bound; every mistake is told, not only the first.
//!
//! The order: scenarios, injection files, media files, then the checks that need all of them together (`-m_csv`, `-users`, keywords and fields).
//! The second group is skipped when the first has mistakes, as its messages would only repeat them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lab_sip::call::render::{Addresses, PreparedMessages};
use lab_sip::inject::{FileError, InjectionFiles};
use lab_sip::options::{Options, ScenarioName};
use lab_sip::rtp;
use lab_sip::scenario::model::ScenarioSource;
use lab_sip::scenario::{
    BUILT_IN_NAMES, CompileError, CompiledScenario, Scenario, built_in, compile_file, compile_text, counted,
};
use lab_sip::trace::Tracer;
use stdx::rng::Rng;

use super::flags::nearest_of;
use crate::engine::Setup;

/// A mistake in a file, or beside one: `file:line: what`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupError(pub String);

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<CompileError> for SetupError {
    fn from(error: CompileError) -> Self {
        match error.line {
            // A mistake of the file as a whole: it cannot be read, or is too large.
            0 => SetupError(format!("{}: {}", error.file, error.message)),
            _ => SetupError(error.to_string()),
        }
    }
}

impl From<FileError> for SetupError {
    fn from(error: FileError) -> Self {
        let file = error.file.display();
        match error.line {
            0 => SetupError(format!("{file}: {}", error.message)),
            line => SetupError(format!("{file}:{line}: {}", error.message)),
        }
    }
}

/// A setup, and what a careful author would want to hear of.
#[derive(Debug)]
pub struct BuiltSetup {
    /// The compiled run.
    pub setup: Setup,
    /// Oddities that do not prevent the run.
    pub warnings: Vec<SetupError>,
}

/// Compiles scenarios and loads files, for a run: it needs a target when the scenario starts calls.
pub fn build(options: Options) -> Result<BuiltSetup, Vec<SetupError>> {
    let built = load(options)?;
    match missing_target(&built.setup) {
        Some(mistake) => Err(vec![mistake]),
        None => Ok(built),
    }
}

/// As [`build`], without asking for a target: for `--check`.
pub(super) fn load(mut options: Options) -> Result<BuiltSetup, Vec<SetupError>> {
    let mut mistakes = Vec::new();
    let mut warnings = Vec::new();
    let mut compiled = |name: Option<&ScenarioName>, mistakes: &mut Vec<SetupError>| {
        name.and_then(|name| match compile(name) {
            Ok(compiled) => {
                warnings.extend(compiled.warnings.into_iter().map(SetupError::from));
                Some(Arc::new(compiled.scenario))
            }
            Err(errors) => {
                mistakes.extend(errors);
                None
            }
        })
    };
    let default = ScenarioName::BuiltIn("uac".to_owned());
    let choice = &options.scenario;
    let scenario = compiled(Some(choice.main.as_ref().unwrap_or(&default)), &mut mistakes);
    let receive = compiled(choice.receive.as_ref(), &mut mistakes);
    let out_of_call = compiled(choice.out_of_call.as_ref(), &mut mistakes);
    let files = files(&options.injection.files, &options.injection.indexes, &mut mistakes);
    let receive_files = options
        .injection
        .receive_file
        .as_ref()
        .map(|file| Arc::new(files_of(std::slice::from_ref(file), &mut mistakes)));
    let compiled = [scenario.as_deref(), receive.as_deref(), out_of_call.as_deref()];
    mistakes.extend(media(&options, &compiled.into_iter().flatten().collect::<Vec<_>>()));
    if mistakes.is_empty() {
        mistakes.extend(total_of_file(&mut options, &files));
    }
    // Fields and variables of files are judged only when all files are there.
    if mistakes.is_empty() {
        if scenario.as_ref().is_some_and(|scenario| scenario.starts_calls()) {
            mistakes.extend(users_without_line(&options, &files));
        }
        let own = receive_files.as_deref().unwrap_or(&files);
        let pairs = [(&scenario, &files), (&receive, own), (&out_of_call, &files)];
        for (scenario, files) in pairs.into_iter().filter_map(|(known, files)| Some((known.as_ref()?, files)))
        {
            mistakes.extend(keywords(&options, scenario, files));
        }
    }
    match scenario {
        Some(scenario) if mistakes.is_empty() => Ok(BuiltSetup {
            setup: Setup {
                options: Arc::new(options),
                scenario,
                receive,
                out_of_call,
                files: Arc::new(files),
                receive_files,
                tracer: Tracer::default(),
                chat: None,
            },
            warnings,
        }),
        _ => Err(mistakes),
    }
}

/// `-m_csv`: the run ends after as many calls as the first file has lines.
fn total_of_file(options: &mut Options, files: &InjectionFiles) -> Option<SetupError> {
    if !options.rate.total_of_file {
        return None;
    }
    if files.is_empty() {
        return Some(SetupError("-m_csv needs the file whose lines it counts: add -inf FILE".to_owned()));
    }
    options.rate.total = Some(files.line_count(0).into());
    None
}

/// `-set` of a variable that no scenario has for a global one, in SIPp's words.
pub(super) fn unknown_global(setup: &Setup) -> Option<SetupError> {
    let scenarios = [Some(&setup.scenario), setup.receive.as_ref(), setup.out_of_call.as_ref()];
    let globals: Vec<&String> =
        scenarios.into_iter().flatten().flat_map(|scenario| &scenario.variables.global).collect();
    let unknown = setup.options.behaviour.set.iter().find(|(name, _)| !globals.contains(&name));
    unknown.map(|(name, _)| {
        SetupError(format!("Can not set the global variable {name}, because it does not exist: add <Global variables=\"{name}\"/>"))
    })
}

/// `-users` beyond the lines of a file in USERS order, whose users have a line each.
fn users_without_line(options: &Options, files: &InjectionFiles) -> Vec<SetupError> {
    let users = options.rate.users.unwrap_or(0);
    let short = |index: &usize| files.is_by_user(*index) && files.line_count(*index) < users;
    let told = |index: usize| {
        let lines = counted(files.line_count(index) as usize, "line");
        SetupError(format!(
            "{} has only {lines}, yet -users asks for {users}",
            options.injection.files[index].display()
        ))
    };
    (0..files.len()).filter(short).map(told).collect()
}

/// A file without indexes, as `-infindex` speaks of `-inf` alone.
fn files_of(paths: &[PathBuf], mistakes: &mut Vec<SetupError>) -> InjectionFiles {
    files(paths, &[], mistakes)
}

/// The injection files with the indexes of `-infindex`. With a mistake none are loaded, and the run does not begin.
fn files(paths: &[PathBuf], indexes: &[(PathBuf, u32)], mistakes: &mut Vec<SetupError>) -> InjectionFiles {
    // A file that cannot be read is told here, whatever the loader says of it.
    let unreadable: Vec<SetupError> = paths.iter().filter_map(|path| readable(path)).collect();
    if !unreadable.is_empty() {
        mistakes.extend(unreadable);
        return InjectionFiles::default();
    }
    InjectionFiles::load(paths, indexes).unwrap_or_else(|errors| {
        mistakes.extend(errors.into_iter().map(SetupError::from));
        InjectionFiles::default()
    })
}

/// The mistake, if the file cannot be opened.
fn readable(path: &Path) -> Option<SetupError> {
    std::fs::File::open(path)
        .err()
        .map(|error| SetupError(format!("{}: cannot be read: {error}", path.display())))
}

/// A scenario of a file, or one that comes with the program.
fn compile(name: &ScenarioName) -> Result<CompiledScenario, Vec<SetupError>> {
    let compiled = match name {
        ScenarioName::File(path) => {
            if let Some(mistake) = readable(path) {
                return Err(vec![mistake]);
            }
            compile_file(path)
        }
        ScenarioName::BuiltIn(name) => {
            let text = built_in(name).ok_or_else(|| vec![no_built_in(name)])?;
            let known = BUILT_IN_NAMES.iter().find(|known| *known == name).copied().unwrap_or("built-in");
            compile_text(text.as_bytes(), ScenarioSource::BuiltIn(known))
        }
    };
    compiled.map_err(|errors| errors.into_iter().map(SetupError::from).collect())
}

/// Also for `-sd`.
pub(super) fn no_built_in(name: &str) -> SetupError {
    let hint = nearest_of(name, BUILT_IN_NAMES.iter().copied()).map_or_else(
        || format!(" One of {} is expected.", BUILT_IN_NAMES.join(", ")),
        |near| format!(" Did you mean '{near}'?"),
    );
    SetupError(format!("Invalid default scenario name '{name}'.{hint}"))
}

/// Mistakes in the media files of the scenarios. The files are read once more when the run begins, with its address.
fn media(options: &Options, scenarios: &[&Scenario]) -> Vec<SetupError> {
    let ip = options.network.local.first().copied().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    // Nothing of this draw is kept.
    let mut rng = Rng::from_seed([0; 32]);
    let mistakes = rtp::RunMedia::load(options, scenarios, ip, &mut rng).err().unwrap_or_default();
    mistakes.into_iter().map(SetupError).collect()
}

/// A keyword that no `-key` gives, a field of a file that no `-inf` gives.
fn keywords(options: &Options, scenario: &Scenario, files: &InjectionFiles) -> Option<SetupError> {
    PreparedMessages::new(scenario, options, &Addresses::default(), files).err().map(SetupError)
}

/// The scenario needs a target, and the flags name none.
fn missing_target(setup: &Setup) -> Option<SetupError> {
    let options = &setup.options;
    let by_peer = options.network.remote_sending.is_some();
    (setup.scenario.starts_calls() && options.remote.is_none() && !by_peer).then(|| {
        SetupError(
            "Missing remote host parameter. This scenario requires it: add HOST or HOST:PORT".to_owned(),
        )
    })
}
