//! Sources of type `file`: accounts, a line each. The content is not read with the configuration: a node that runs goes on with what the file had
//! before, and commands have to reach it then. `belfry check-config` reads it, and a node that starts.

use external_auth::{FileSettings, SourceKind, SourceSettings, is_open_to_others};

use super::{Fault, ROLES, SourceKeys, fault};

/// Keys of such a source.
pub(super) const FILE: [&str; 2] = ["accounts_file", "roles"];

/// Reads the keys.
pub(super) fn read(keys: &SourceKeys<'_>) -> Result<FileSettings, Fault> {
    let expected = "a file with NAME:SECRET in each line";
    let path = keys.file("accounts_file")?.ok_or_else(|| fault("no `accounts_file`", expected))?;
    // The keys of a token's `roles` without the claim: the groups are a column of the file.
    let roles = keys.table_of("roles", &ROLES[1..], |keys| keys.roles())?;
    Ok(FileSettings { path, roles: roles.unwrap_or_default() })
}

/// Consequences of files of accounts that may surprise.
pub(crate) fn warnings(sources: &[SourceSettings]) -> Vec<String> {
    let mut warnings = Vec::new();
    for source in sources {
        let SourceKind::File(file) = &source.kind else { continue };
        let (domain, path) = (&*source.domain, file.path.display());
        if is_open_to_others(&file.path) {
            warnings.push(format!(
                "{path}: others than its owner and group may read it, and with its secrets guess passwords at their leisure: chmod o= {path}"
            ));
        }
        if source.keep_digests.is_zero() {
            warnings.push(format!(
                "phones of {domain} cannot register with the passwords of {path}: SIP digest needs another form of a password than the file has. \
                 Give accounts a password for their phones (`belfry account passwd`), or set `keep_digests`, by which phones take the password of the last sign-in by PLAIN"
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use external_auth::DirectoryRole;

    use super::*;
    use crate::Config;

    const LINE: &str = "alice:{SSHA}JQgdTqjowIvpsbtICxnkg0t7E6xzYWx0c2FsdHNhbHRzYWx0:Alice:staff\n";

    #[test]
    fn the_keys_of_a_file_of_accounts_are_read_and_surprises_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (config, accounts) = (folder.path().join("belfry.toml"), folder.path().join("people"));
        let source = "[[accounts.sources]]\ndomain = \"a.test\"\ntype = \"file\"\n";
        let load = |more: &str| {
            fs::write(&config, format!("{source}{more}\n")).unwrap();
            Config::load(Some(&config)).map_err(|error| error.to_string())
        };
        let mistake = |more: &str| load(more).unwrap_err();
        assert!(mistake("").contains("no `accounts_file`"));
        let named = "accounts_file = \"people\"\nroles = { admins = [\"staff\"] }";
        assert!(mistake(named).contains("`accounts_file` names people, which cannot be read"));
        fs::write(&accounts, LINE).unwrap();
        fs::set_permissions(&accounts, Permissions::from_mode(0o600)).unwrap();
        let read = load(named).unwrap();
        let SourceKind::File(file) = &read.accounts.sources[0].kind else { panic!("{read:?}") };
        assert_eq!((&file.path, &file.roles[..]), (&accounts, &[(DirectoryRole::Admin, "staff".into())][..]));
        assert!(read.accounts.sources[0].gives_roles());
        let warnings = |config: &Config| super::warnings(&config.accounts.sources);
        let [warning] = &warnings(&read)[..] else { panic!("one") };
        assert!(warning.contains("phones of a.test cannot register"), "{warning}");
        let kept = load(&format!("{named}\nkeep_digests = \"30d\"")).unwrap();
        assert!(warnings(&kept).is_empty());
        fs::set_permissions(&accounts, Permissions::from_mode(0o644)).unwrap();
        let [warning] = &warnings(&kept)[..] else { panic!("one") };
        assert!(warning.contains("people: others than its owner and group may read it"), "{warning}");
        for (more, expected) in [
            ("accounts_file = \"people\"\nroles = { claim = \"groups\" }", "unknown key `claim` of `roles`"),
            ("accounts_file = \"people\"\nurl = \"ldap://a\"", "unknown key `url`"),
        ] {
            assert!(mistake(more).contains(expected), "{more}");
        }
    }
}
