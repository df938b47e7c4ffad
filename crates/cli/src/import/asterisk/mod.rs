//! Accounts of Asterisk: `pjsip.conf` with what it includes, and the numbers of `extensions.conf` that call one account; or the tables that have the same
//! (`realtime`).
//!
//! An endpoint with `auth` is an account; its name is the `username` of the auth, by which its phone proves itself. Where the endpoint or its
//! addresses (`aors`) are called otherwise, those are aliases. The files are read whole, for a section may be made of templates.

mod config;
mod dialplan;
mod realtime;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use self::config::{ConfigFiles, Section, Sections};
use self::dialplan::{DialPlan, Extension};
use self::realtime::Realtime;
use super::files::cannot_read;
use super::foreign::{ForeignAccount, ForeignCredentials, ForeignInput, ForeignPiece, ForeignSource};
use super::kamailio::md5_of;
use super::row_files::RowFiles;
use crate::error::CliError;
use crate::limits;

/// The realm of Asterisk where nothing names one.
const DEFAULT_REALM: &str = "asterisk";

/// A line of one of the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Line {
    /// Its place among the names of the files.
    file: u32,
    number: u32,
}

impl Line {
    /// Both in the number of a line that a piece has.
    fn packed(self) -> u64 {
        (u64::from(self.file) << 32) | u64::from(self.number)
    }

    fn unpacked(line: u64) -> Line {
        Line { file: (line >> 32) as u32, number: line as u32 }
    }
}

/// Something that is not taken.
fn bad(line: Line, what: String) -> ForeignPiece {
    ForeignPiece::Bad { line: line.packed(), what }
}

/// Gives the accounts of the files.
pub(super) struct Asterisk {
    files: ConfigFiles,
    pieces: VecDeque<ForeignPiece>,
    total: Option<u64>,
    /// There was a section or an extension that accounts or their numbers are made of.
    is_recognised: bool,
}

/// Opens files of Asterisk, or its tables where it keeps accounts in a database.
pub(super) fn open(mut input: ForeignInput<'_>) -> Result<Box<dyn ForeignSource>, CliError> {
    let has_tables = match input.file.take() {
        None => realtime::is_folder_of_tables(input.path),
        Some(mut file) => {
            let mut beginning = Vec::new();
            let looked = file.by_ref().take(limits::IMPORT_LOOK as u64).read_to_end(&mut beginning);
            looked.map_err(|error| cannot_read(input.path, &error))?;
            let has_tables = realtime::are_rows(&beginning);
            input.file = Some(Box::new(std::io::Cursor::new(beginning).chain(file)));
            has_tables
        }
    };
    if !has_tables {
        return Ok(Box::new(Asterisk::open(input)?));
    }
    let format = Realtime::new(&input.domain);
    Ok(Box::new(RowFiles::open(input, realtime::TABLES, realtime::FOLDER, format)?))
}

impl Asterisk {
    /// Reads the files.
    pub(super) fn open(input: ForeignInput<'_>) -> Result<Asterisk, CliError> {
        let ForeignInput { path, file, domain, stop } = input;
        let open = |path: &Path| -> Result<Box<dyn Read + Send>, CliError> {
            let file = File::open(path).map_err(|error| cannot_read(path, &error))?;
            Ok(Box::new(stop.guard(file)))
        };
        let is_input = path == Path::new("-");
        let folder = if file.is_none() { Some(path) } else { path.parent().filter(|_| !is_input) };
        let folder = folder.map(|folder| if folder == Path::new("") { Path::new(".") } else { folder });
        let real = folder.map(|folder| folder.canonicalize().map_err(|error| cannot_read(folder, &error)));
        let mut files = ConfigFiles::new(real.transpose()?);
        let (mut sections, mut plan) = (Sections::default(), DialPlan::default());
        let name = if is_input { Path::new("standard input").into() } else { path.to_path_buf() };
        let (name, file) = match file {
            Some(file) => (name, Box::new(stop.guard(file)) as Box<dyn Read + Send>),
            None => (path.join("pjsip.conf"), open(&path.join("pjsip.conf"))?),
        };
        files.read(&name, file, &mut |line, faults| sections.line(line, faults))?;
        sections.end()?;
        let dial_plan = path.join("extensions.conf");
        if dial_plan.is_file() {
            let input = open(&dial_plan)?;
            files.read(&dial_plan, input, &mut |line, _| {
                plan.line(line);
                Ok(())
            })?;
        }
        let mut pieces: VecDeque<ForeignPiece> = files.bad.drain(..).collect();
        Reading { sections: &sections, domain: &domain, out: &mut pieces }.all(&plan);
        let total = (!is_input).then_some(files.bytes);
        let is_recognised = sections.are_of_asterisk() || !plan.numbers.is_empty();
        Ok(Asterisk { files, pieces, total, is_recognised })
    }
}

impl ForeignSource for Asterisk {
    fn next(&mut self) -> Result<Option<ForeignPiece>, CliError> {
        Ok(self.pieces.pop_front())
    }

    fn place(&self, line: u64) -> String {
        let name = self.files.names.get((line >> 32) as usize);
        format!("{}:{}", name.map_or("".into(), |name| name.display().to_string()), line as u32)
    }

    fn bytes(&self) -> u64 {
        self.files.bytes
    }

    fn total(&self) -> Option<u64> {
        self.total
    }

    fn unrecognised(&self) -> Option<String> {
        let expected = "sections of pjsip.conf with type=endpoint and type=auth, or the tables ps_endpoints and ps_auths";
        (!self.is_recognised).then(|| expected.into())
    }
}

/// Accounts while they are made of the sections.
struct Reading<'a> {
    sections: &'a Sections,
    domain: &'a str,
    out: &'a mut VecDeque<ForeignPiece>,
}

impl Reading<'_> {
    fn all(&mut self, plan: &DialPlan) {
        for section in self.sections.overfull() {
            self.out.push_back(bad(
                section.line,
                format!("[{}] with too many values; expected fewer", section.name),
            ));
        }
        let auths: HashMap<&str, &Section> =
            self.sections.of("auth").map(|auth| (&*auth.name, auth)).collect();
        let realm = self
            .sections
            .of("global")
            .map(|global| global.get("default_realm"))
            .find(|realm| !realm.is_empty());
        // The account of each endpoint.
        let (mut accounts, mut made) = (HashMap::new(), HashSet::new());
        for endpoint in self.sections.of("endpoint") {
            let Some(name) = endpoint.get("auth").split(',').map(str::trim).find(|name| !name.is_empty())
            else {
                let what = "endpoints without auth, as trunks, which a route replaces: belfry route add";
                self.out.push_back(ForeignPiece::Other(what.into(), 1));
                continue;
            };
            let Some(auth) = auths.get(name) else {
                let what = format!(
                    "endpoint {}: auth {name}; expected a section [{name}] with type=auth",
                    endpoint.name
                );
                self.out.push_back(bad(endpoint.line, what));
                continue;
            };
            let user = auth.get("username");
            match credentials(auth, user, self.domain, realm.unwrap_or(DEFAULT_REALM)) {
                Err(why) => {
                    self.out.push_back(bad(auth.line, format!("endpoint {}: {why}", endpoint.name)));
                    continue;
                }
                // Several endpoints may have one auth.
                Ok(credentials) if made.insert(user) => self.account(endpoint, user, credentials),
                Ok(_) => {}
            }
            accounts.insert(&*endpoint.name, user);
            self.aliases(endpoint, user);
        }
        self.others();
        self.numbers(plan, &accounts);
    }

    fn account(&mut self, endpoint: &Section, user: &str, credentials: ForeignCredentials) {
        self.out.push_back(ForeignPiece::Account(ForeignAccount {
            line: endpoint.line.packed(),
            user: user.into(),
            domain: self.domain.into(),
            name: display_name(endpoint.get("callerid")).into(),
            credentials,
        }));
    }

    /// The names of the endpoint and of its addresses, where the account is called otherwise.
    fn aliases(&mut self, endpoint: &Section, user: &str) {
        let aors = endpoint.get("aors").split(',').map(str::trim).filter(|name| !name.is_empty());
        let names: HashSet<&str> = aors.chain([&*endpoint.name]).filter(|name| *name != user).collect();
        let mut names: Vec<&str> = names.into_iter().collect();
        names.sort_unstable();
        for name in names {
            self.alias(endpoint.line, name, user);
        }
    }

    fn alias(&mut self, line: Line, alias: &str, user: &str) {
        let address = |user: &str| (user.into(), self.domain.into());
        let (alias, account) = (address(alias), address(user));
        self.out.push_back(ForeignPiece::Alias { line: line.packed(), alias, account });
    }

    /// Kinds of sections that have no place here, and mailboxes.
    fn others(&mut self) {
        let boxes = ["endpoint", "aor"].into_iter().flat_map(|kind| self.sections.of(kind));
        let boxes = boxes.filter(|section| !section.get("mailboxes").is_empty()).count();
        let registrations = self.sections.of("registration").count();
        for (count, what) in [
            (boxes, "mailboxes"),
            (registrations, "registrations at carriers, which a route replaces: belfry route add"),
        ] {
            if count > 0 {
                self.out.push_back(ForeignPiece::Other(what.into(), count as u64));
            }
        }
    }

    /// Numbers that call one account are aliases of it.
    fn numbers(&mut self, plan: &DialPlan, accounts: &HashMap<&str, &str>) {
        let mut numbers: Vec<_> = plan.numbers.iter().collect();
        numbers.sort_by_key(|(_, (line, _))| (line.file, line.number));
        let (mut more, mut seen) = (0, HashSet::new());
        for ((_, number), (line, extension)) in numbers {
            let user = match extension {
                Extension::Calls(endpoint) => accounts.get(&**endpoint).copied(),
                Extension::More => None,
            };
            match user {
                // Several contexts may have it.
                Some(user) if seen.insert((number, user)) => self.alias(*line, number, user),
                Some(_) => {}
                None => more += 1,
            }
        }
        for (count, what) in [
            (more, "extensions that do more than to call one account: belfry route add, or an application"),
            (plan.patterns, "extensions with a pattern"),
        ] {
            if count > 0 {
                self.out.push_back(ForeignPiece::Other(what.into(), count));
            }
        }
    }
}

/// The credentials of an auth, or why there are none.
fn credentials(
    auth: &Section,
    user: &str,
    domain: &str,
    default_realm: &str,
) -> Result<ForeignCredentials, String> {
    let name = &auth.name;
    if user.is_empty() {
        return Err(format!("auth {name} without username; expected the name that the phone signs in with"));
    }
    if !auth.get("password").is_empty() {
        return Ok(ForeignCredentials::Password(auth.get("password").into()));
    }
    let of_md5 = |value: &str| {
        let (algorithm, digest) = value.split_once(':')?;
        algorithm.trim().eq_ignore_ascii_case("MD5").then(|| digest.trim().to_owned())
    };
    let digest = auth.all("password_digest").find_map(of_md5);
    let digest = digest.unwrap_or_else(|| auth.get("md5_cred").to_owned());
    if digest.is_empty() {
        let kind = Some(auth.get("auth_type")).filter(|kind| !kind.is_empty()).unwrap_or("userpass");
        return Err(format!(
            "auth {name} of auth_type {kind} without password and digest of MD5; expected one of them"
        ));
    }
    let realm = Some(auth.get("realm")).filter(|realm| !realm.is_empty()).unwrap_or(default_realm);
    if realm != domain {
        return Err(format!(
            "a digest of the realm {realm:?}; expected one of {domain:?}, for the realm is the domain here: set its password \
             with belfry account add"
        ));
    }
    let md5 = md5_of(&digest).ok_or("a digest that is none; expected that of MD5, 32 hexadecimal digits")?;
    Ok(ForeignCredentials::Md5(md5))
}

/// The name of `"Alice Liddell" <100>`, or of a text without a number in brackets.
fn display_name(caller: &str) -> &str {
    caller.split('<').next().unwrap_or_default().trim().trim_matches('"')
}
