//! The page of users: their chat and a phone in the browser. The files are part of the program, plain modules that no build
//! step has to make; `assets/README.md` names the one that comes from elsewhere. `xmpp-io` serves them below `/app/` at the
//! addresses of WebSocket, with the headers that this crate gives.
//!
//! Nothing of an account is in these files: they are the same for every client.

#![warn(missing_docs)]

mod assets;
mod ways;

pub use assets::{Asset, find};
pub use ways::{PageProvider, PageSettings, SipListener, SipWays, TokenDomain, Ways};

/// The headers of every answer below `/app/`, besides the content security policy of [`Ways`]. The browser shows the page in no
/// frame, sends no referrer, and gives the page microphone and camera only.
pub const HEADERS: [(&str, &str); 7] = [
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    (
        "permissions-policy",
        "microphone=(self), camera=(self), geolocation=(), display-capture=(), usb=(), payment=()",
    ),
    // With its entity tag: after an upgrade no browser mixes files of two versions.
    ("cache-control", "no-cache"),
];
