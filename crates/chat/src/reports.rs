//! Reports of spam and abuse (XEP-0377): a user sends one with the request to block an address, and the
//! administrators of the server get it as a message.
//!
//! `blocking` performs the request and calls [`forward`] afterwards. Everything in a report is one user's
//! text about another: it is cut to the limits, and only its known elements are passed on.

use stdx::rng::Rng;
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

use super::feature::Feature;
use super::{Effect, HostSettings, Outbox, token};
use crate::limits;

pub(super) const FEATURE: Feature = Feature {
    specifications: &[Specification {
        name: "XEP-0377",
        title: "Spam Reporting",
        version: "0.3.1",
        level: Level::Complete,
        file: "crates/chat/src/reports.rs",
        note: "administrators get each report as a message; without administrators it is not announced",
    }],
    account: &[],
    server: &[ns::REPORTING],
    handles: &[],
};

/// A report about an address.
struct Report {
    reported: Jid,
    /// A reason that the specification names, or the client's own: text after the last colon.
    reason: Box<str>,
    text: Box<str>,
    /// The messages that it is about, as their receiver's archive names them.
    messages: Vec<Element>,
}

impl Report {
    /// The report in an item of a request to block; `None`: there is none. Texts are cut to their limits.
    fn parse(item: &Element) -> Option<Report> {
        let report = item.get("report", ns::REPORTING)?;
        let reported = Jid::parse(item.attr("jid")?).ok()?;
        let reason = report.attr("reason").unwrap_or_default();
        let reason = reason.rsplit(':').next().filter(|it| !it.is_empty()).unwrap_or("no reason");
        let text = report.content_of("text", ns::REPORTING).unwrap_or_default();
        let ids = report.elements().filter(|child| child.is("stanza-id", ns::SID));
        let messages = ids.filter_map(|id| {
            let part = |name: &'static str| id.attr(name).filter(|it| it.len() <= limits::REPORT_REASON);
            Some(Element::new("stanza-id", ns::SID).with("by", part("by")?).with("id", part("id")?))
        });
        Some(Report {
            reported,
            reason: cut(reason, limits::REPORT_REASON).into(),
            text: cut(text.trim(), limits::REPORT_TEXT).into(),
            messages: messages.take(limits::REPORT_MESSAGES).collect(),
        })
    }

    /// The message for administrators, without an address. It comes from the reporter's domain, as the server
    /// sends it.
    fn message(&self, reporter: &Bare) -> Element {
        let Report { reported, reason, text, messages } = self;
        let colon = if text.is_empty() { "" } else { ": " };
        let report = Element::new("report", ns::REPORTING)
            .with("reason", format!("{}:{reason}", ns::REPORTING_REASON))
            .children(messages.iter().cloned());
        Element::new("message", ns::CLIENT)
            .with("from", reporter.domain())
            .child(Element::new("subject", ns::CLIENT).text(format!("Report: {reason}")))
            .child(
                Element::new("body", ns::CLIENT)
                    .text(format!("{reporter} blocked and reported {reported} ({reason}){colon}{text}")),
            )
            .child(report)
    }
}

/// The beginning of a text, of at most that many bytes, never within a character.
fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// Sends the reports in a request to block to the administrators. The request has been performed: a report alone never makes it fail.
pub(super) fn forward(
    (settings, rng): (&HostSettings, &mut Rng),
    reporter: &Bare,
    iq: &Element,
    out: &mut Outbox,
) {
    let Some(block) = iq.get("block", ns::BLOCKING) else { return };
    let reports: Vec<Report> =
        block.elements().filter_map(Report::parse).take(limits::REPORTS_OF_REQUEST).collect();
    for admin in settings.admins.iter().filter(|_| !reports.is_empty()) {
        for report in &reports {
            let id = token(rng);
            let message = report.message(reporter).with("to", admin.as_str()).with("id", id);
            out.push(Effect::Route(Box::new(message)));
        }
    }
}
