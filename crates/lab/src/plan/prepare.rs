//! A plan made ready: names filled in, its files written, every load compiled. Nothing is bound yet.
//!
//! The order: a temporary folder, the values, the files of the plan in that folder, and each load by the parser of its command. Everything that
//! can be wrong is found here, before a load runs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::model::{Generator, Plan, PlanError};
use super::{FILES, PlanValues};
use crate::engine::Setup;

/// The command of Ringer that makes the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadCommand {
    /// `ringer sip`: calls.
    Sip,
    /// `ringer xmpp`: users.
    Xmpp,
}

/// Makes a set-up of a command's arguments. The command line's own parsers, handed in.
pub type ParseArguments<'a> = &'a dyn Fn(LoadCommand, &[String]) -> Result<Setup, String>;

/// A plan whose loads are ready to run.
pub struct PreparedPlan {
    /// The plan with its values filled in.
    pub plan: Plan,
    /// A load for each generator, in the order of the plan.
    pub loads: Vec<PreparedLoad>,
    /// The plan's files; gone with this value.
    _folder: TempDir,
}

/// One load of a plan, ready to run.
pub struct PreparedLoad {
    /// The generator with its values filled in.
    pub generator: Generator,
    /// The compiled arguments of the generator.
    pub setup: Setup,
}

/// More lines than any server under test here has accounts.
const MAX_ROWS: u64 = 50_000_000;

impl PreparedPlan {
    /// `sets` are `--set name=value`, which must be names the plan has.
    pub fn new(
        plan: Plan,
        target: &str,
        sets: &[(String, String)],
        parse: ParseArguments<'_>,
    ) -> Result<PreparedPlan, String> {
        let folder = tempfile::Builder::new()
            .prefix("ringer-plan-")
            .tempdir()
            .map_err(|error| format!("the folder for the plan's files cannot be made: {error}"))?;
        let values = values(&plan, target, sets, folder.path())?;
        write_files(&plan, &values, folder.path())?;
        let loads = plan.generators.iter().map(|generator| {
            let setup = compile(generator, &values, parse).map_err(|(line, message)| {
                let message = format!("generator {:?}: {message}", generator.name);
                PlanError { file: plan.file.clone(), line, message }.to_string()
            })?;
            Ok(PreparedLoad { generator: generator.clone(), setup })
        });
        let loads = loads.collect::<Result<Vec<_>, String>>()?;
        Ok(PreparedPlan { plan, loads, _folder: folder })
    }
}

/// `Err` has the mistake's line in the plan and the expected value.
fn compile(
    generator: &Generator,
    values: &PlanValues,
    parse: ParseArguments<'_>,
) -> Result<Setup, (usize, String)> {
    let (command, words) = generator.words();
    let line = |index: usize| generator.lines.get(index).copied().unwrap_or_default();
    let words = words.iter().enumerate();
    let words = words.map(|(index, word)| values.fill(word).map_err(|message| (line(index), message)));
    let words: Vec<String> = words.collect::<Result<_, _>>()?;
    parse(command, &words).map_err(|message| (generator.line_of(&message), message))
}

/// The plan's own values, those of `--set`, and the names that every plan has: `target`, `n`, `dir`.
fn values(plan: &Plan, target: &str, sets: &[(String, String)], folder: &Path) -> Result<PlanValues, String> {
    let mut values = PlanValues::default();
    for (name, setting) in &plan.set {
        values.set(name, setting.to_string());
    }
    for (name, value) in sets {
        if !plan.set.contains_key(name) {
            let known: Vec<&str> = plan.set.keys().map(String::as_str).collect();
            return Err(format!(
                "--set {name}: the plan has no such value: expected one of {}",
                known.join(", ")
            ));
        }
        values.set(name, value.as_str());
    }
    values.set("target", target);
    // The placeholder of the users' own patterns.
    values.set("n", "{n}");
    values.set("dir", folder.display().to_string());
    Ok(values)
}

/// The shipped files, and injection files of `[data]`, row by row.
fn write_files(plan: &Plan, values: &PlanValues, folder: &Path) -> Result<(), String> {
    let write = |name: &str, text: &[u8]| {
        // A name must not lead out of the folder.
        if name.contains('/') || name.starts_with('.') {
            return Err(format!("data {name:?}: expected a plain file name"));
        }
        fs::write(folder.join(name), text).map_err(|error| format!("{}/{name}: {error}", folder.display()))
    };
    for (name, text) in FILES {
        write(name, text.as_bytes())?;
    }
    for (name, data) in &plan.data {
        let rows = values.fill(&data.rows)?;
        let rows: u64 =
            rows.parse().ok().filter(|rows| (1..=MAX_ROWS).contains(rows)).ok_or_else(|| {
                format!("data {name:?}: rows {rows:?}: expected a number from 1 to {MAX_ROWS}")
            })?;
        let mut text = format!("{}\n", data.mode);
        let mut values = values.clone();
        for row in 0..rows {
            values.set("n", row.to_string());
            // The row half the file away: pairs of users who call each other.
            values.set("other", ((row + rows / 2) % rows).to_string());
            let _ = writeln!(text, "{}", values.fill(&data.line)?);
        }
        write(name, text.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn prepare(
        plan: &str,
        sets: &[(&str, &str)],
    ) -> (Result<PreparedPlan, String>, Vec<Vec<String>>, Vec<String>) {
        let seen = RefCell::new((Vec::new(), Vec::new()));
        let parse = |_: LoadCommand, words: &[String]| -> Result<Setup, String> {
            let mut seen = seen.borrow_mut();
            seen.0.push(words.to_vec());
            if let Some(path) = words.iter().find(|word| word.ends_with(".csv")) {
                seen.1.push(fs::read_to_string(path).expect("written before the loads are compiled"));
            }
            Err("seen".to_owned())
        };
        let plan = Plan::parse(plan, "p").expect("a right plan");
        let sets: Vec<(String, String)> =
            sets.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let prepared = PreparedPlan::new(plan, "127.0.0.1:5060", &sets, &parse);
        let (words, files) = seen.into_inner();
        (prepared, words, files)
    }

    const PLAN: &str = "about = \"x\"\n[set]\naccounts = 4\n[data.\"users.csv\"]\nrows = \"{accounts}\"\nline = \"user{n};user{other}\"\n\
        [[generator]]\nname = \"calls\"\nsip = [\"{target}\", \"-inf\", \"{dir}/users.csv\"]\n";

    #[test]
    fn names_are_filled_and_files_written() {
        let (prepared, words, files) = prepare(PLAN, &[]);
        assert!(prepared.err().expect("the parser refuses").contains("generator \"calls\": seen"));
        assert_eq!(words[0][0], "127.0.0.1:5060");
        assert_eq!(files, ["SEQUENTIAL\nuser0;user2\nuser1;user3\nuser2;user0\nuser3;user1\n"]);
    }

    #[test]
    fn mistakes_in_arguments_name_file_and_line() {
        let plan = "about = \"x\"\n[[generator]]\nname = \"users\"\nxmpp = [\"{target}\",\n  \"--users\", \"many\",\n  \"--user\", \"{x}\"]\n";
        let refuse = |plan: &str, message: &'static str| {
            let plan = Plan::parse(plan, "p.toml").expect("a right plan");
            let prepared = PreparedPlan::new(plan, "127.0.0.1", &[], &|_, _| Err(message.to_owned()));
            prepared.err().expect("refused")
        };
        let filled = plan.replace("{x}", "x");
        for (message, line) in [
            ("--users \"many\": expected a number", 5),
            ("unknown flag --user: ringer xmpp --help lists them all", 6),
            ("no users: expected at least one", 4),
        ] {
            let error = refuse(&filled, message);
            assert_eq!(error, format!("p.toml:{line}: generator \"users\": {message}"));
        }
        let error = refuse(plan, "is not asked");
        assert!(error.starts_with("p.toml:6: ") && error.contains("{x} is not set"), "{error}");
    }

    #[test]
    fn settings_are_overridden_by_name() {
        let (_, _, files) = prepare(PLAN, &[("accounts", "2")]);
        assert_eq!(files, ["SEQUENTIAL\nuser0;user1\nuser1;user0\n"]);
        let (prepared, _, _) = prepare(PLAN, &[("acounts", "2")]);
        assert!(prepared.err().expect("misspelt").contains("expected one of accounts"));
        let (prepared, _, _) = prepare(PLAN, &[("accounts", "none")]);
        assert!(prepared.err().expect("not a number").contains("rows \"none\": expected a number"));
    }
}
