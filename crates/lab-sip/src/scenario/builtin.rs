//! Scenarios that come with the program: the message flows of SIPp's own.

/// Name and text of each bundled scenario.
const BUILT_IN: &[(&str, &str)] = &[
    ("uac", include_str!("builtin/uac.xml")),
    ("uas", include_str!("builtin/uas.xml")),
    ("regexp", include_str!("builtin/regexp.xml")),
    ("3pcc-C-A", include_str!("builtin/3pcc-C-A.xml")),
    ("3pcc-C-B", include_str!("builtin/3pcc-C-B.xml")),
    ("3pcc-A", include_str!("builtin/3pcc-A.xml")),
    ("3pcc-B", include_str!("builtin/3pcc-B.xml")),
    ("branchc", include_str!("builtin/branchc.xml")),
    ("branchs", include_str!("builtin/branchs.xml")),
    ("uac_pcap", include_str!("builtin/uac_pcap.xml")),
    ("ooc_default", include_str!("builtin/ooc_default.xml")),
    ("ooc_dummy", include_str!("builtin/ooc_dummy.xml")),
];

/// The names for `-sn` and `-sd`.
pub const BUILT_IN_NAMES: [&str; BUILT_IN.len()] = {
    let mut names = [""; BUILT_IN.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = BUILT_IN[at].0;
        at += 1;
    }
    names
};

/// The XML of a scenario that comes with the program: `uac`, `uas`, `regexp`, `branchc`, `branchs`, `uac_pcap`,
/// `3pcc-C-A`, `3pcc-C-B`, `3pcc-A`, `3pcc-B`, `ooc_default`, `ooc_dummy`.
pub fn built_in(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}
