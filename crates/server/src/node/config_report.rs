//! The configuration file as it is now, for the operators' console: its mistakes, what a reload would take over, and its keys without secrets.
//!
//! Reads what `belfry check-config` reads, for the running node, and changes nothing.

use config::{Config, ConfigError};
use control::{ConfigKey, ConfigReport};

pub(super) fn read(running: &Config) -> ConfigReport {
    let mut report = ConfigReport::default();
    let mut file = running.file.clone();
    match running.reload() {
        Ok(new) => {
            report.mistakes = mistakes_of_values(&new).into_iter().map(Box::from).collect();
            report.warnings = new.warnings().into_iter().map(Box::from).collect();
            report.needs_restart = running.needs_restart(&new).into_iter().map(Box::from).collect();
            file = new.file;
        }
        Err(ConfigError::Mistakes { file: named, mistakes }) => {
            report.mistakes = mistakes.iter().map(|mistake| mistake.to_string().into()).collect();
            file = Some(named);
        }
        Err(error) => report.mistakes.push(error.to_string().into()),
    }
    // A file that is gone has no values, and is a mistake already.
    let text = file.as_ref().and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    report.keys = config::view::keys(&text).into_iter().map(key).collect();
    report.file = file.map(|file| file.display().to_string().into());
    report
}

/// Mistakes that the reader of the file does not look for.
fn mistakes_of_values(new: &Config) -> Vec<String> {
    let log = logging::check(&new.log).err().map(|error| format!("[log] {error:#}"));
    let tls = new.tls.certificate.as_ref().zip(new.tls.key.as_ref());
    let tls = tls.and_then(|(certificate, key)| net::certificate::examine(certificate, key, &[]).err());
    log.into_iter().chain(tls.map(|error| format!("[tls] {error}"))).collect()
}

fn key(key: config::view::ShownKey) -> ConfigKey {
    ConfigKey {
        section: key.section.into(),
        name: key.name.into(),
        value: key.value.map(Box::from),
        default: key.default.map(Box::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_read_and_the_running_configuration_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("belfry.toml");
        let write = |text: &str| std::fs::write(&file, text).unwrap();
        write("[store]\nurl = \"postgres://belfry:hunter2@127.0.0.1/belfry\"\n");
        let running = Config::read(&file).unwrap();
        let report = read(&running);
        assert_eq!((report.mistakes.len(), report.needs_restart.len()), (0, 0), "{report:?}");
        assert_eq!(report.file.as_deref(), Some(&*file.display().to_string()));
        assert!(!format!("{report:?}").contains("hunter2"));
        std::fs::write(folder.path().join("none.pem"), "no certificate").unwrap();
        write("[server]\nshards = 3\n[tls]\ncertificate = \"none.pem\"\nkey = \"none.pem\"\n");
        let report = read(&running);
        assert!(report.mistakes.len() == 1 && report.mistakes[0].starts_with("[tls] "), "{report:?}");
        assert!(report.needs_restart.contains(&"server.shards".into()), "{report:?}");
        let shards = report.keys.iter().find(|key| &*key.section == "server" && &*key.name == "shards");
        assert_eq!(shards.unwrap().value.as_deref(), Some("3"));
        write("[sip]\nlisten = 7\nlisen = 1\n");
        let report = read(&running);
        assert!(report.mistakes.len() == 2 && report.mistakes[0].starts_with("2:"), "{report:?}");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(read(&running).mistakes.len(), 1);
    }
}
