//! The machine of a run in a few words, so that a comparison can tell two of them apart.

use std::fs;

/// `2 processors (Intel(R) Xeon(R) …), Linux 6.1.0`; parts that the system does not tell are left out.
pub(super) fn description() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = std::thread::available_parallelism().map_or(0, usize::from);
    described(processors, &info, release.trim())
}

/// From the texts of /proc, so that tests can have other machines.
fn described(processors: usize, info: &str, release: &str) -> String {
    let model = info.lines().find(|line| line.starts_with("model name"));
    let model = model.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim());
    let mut text = match processors {
        1 => "1 processor".to_owned(),
        several => format!("{several} processors"),
    };
    if let Some(model) = model.filter(|model| !model.is_empty()) {
        text = format!("{text} ({model})");
    }
    if !release.is_empty() {
        text = format!("{text}, Linux {release}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_its_processors_and_its_kernel() {
        let info = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Some CPU @ 2 GHz\n";
        assert_eq!(described(2, info, "6.1.0"), "2 processors (Some CPU @ 2 GHz), Linux 6.1.0");
        assert_eq!(described(1, "", ""), "1 processor");
        assert!(description().contains("processor"));
    }
}
