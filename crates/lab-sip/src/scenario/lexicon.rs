//! The words of the language, each once: the compiler looks names up here and the reference page is made of it.

/// The form of a value, and the effect of the attribute.
#[derive(Debug)]
pub(super) struct AttributeDoc {
    pub(super) name: &'static str,
    pub(super) value: &'static str,
    pub(super) about: &'static str,
}

const fn attr(name: &'static str, value: &'static str, about: &'static str) -> AttributeDoc {
    AttributeDoc { name, value, about }
}

/// Elements below `<scenario>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementName {
    Send,
    Recv,
    Pause,
    TimeWait,
    Nop,
    SendCmd,
    RecvCmd,
    Label,
    Init,
    Global,
    User,
    Reference,
    DefaultMessage,
    ResponseTimeRepartition,
    CallLengthRepartition,
}

/// One element of the language, for the compiler and the reference page.
#[derive(Debug)]
pub(super) struct ElementDoc {
    pub(super) name: &'static str,
    pub(super) id: ElementName,
    /// A command: has the common attributes and may hold an `<action>`.
    pub(super) command: bool,
    pub(super) attributes: &'static [AttributeDoc],
    pub(super) about: &'static str,
}

/// Attributes of `<scenario>`.
pub(super) const SCENARIO: &[AttributeDoc] = &[attr("name", "text", "For screens and reports.")];

/// Attributes of every command.
pub(super) const COMMON: &[AttributeDoc] = &[
    attr(
        "start_rtd",
        "name",
        "Starts this response-time counter; `true` is the counter `1`. Several names: commas.",
    ),
    attr("rtd", "name", "Stops this counter. One that was never started counts from the start of the call."),
    attr("repeat_rtd", "bool", "The counter may stop more than once in a call. Needs `rtd`."),
    attr("crlf", "any", "An empty line after this step on the scenario screen."),
    attr("next", "label", "Continue there after this step; on an optional `recv` only when it matched."),
    attr("test", "variable", "`next` is taken only when this variable is set."),
    attr("chance", "0 to 1", "Probability that `next` is taken."),
    attr("condexec", "variable", "The step runs only when this variable is set."),
    attr("condexec_inverse", "bool", "Turns `condexec` round."),
    attr("counter", "name", "A counter of yours: one column in the statistics, one more at each pass."),
    attr("hide", "bool", "Not on the scenario screen."),
    attr("hiderest", "bool", "What `hide` is for this and the following steps that do not say."),
    attr("display", "text", "Shown on the scenario screen in place of the step's own text."),
    attr("lost", "per cent", "The message is dropped on purpose this often; default `-lost`."),
    attr("ignoresdp", "bool", "Addresses in this message's SDP do not redirect media."),
    attr("ontimeout", "label", "Continue there when the step's time is over."),
];

/// Attributes of all elements that draw from a distribution.
const DISTRIBUTED: &[AttributeDoc] = &[
    attr("distribution", "name", "One of the distributions below."),
    attr("value", "number", "Of `fixed`."),
    attr("min", "number", "Of `uniform`."),
    attr("max", "number", "Of `uniform`."),
    attr("mean", "number", "Of `normal`, `lognormal`, `exponential`."),
    attr("stdev", "number", "Of `normal`, `lognormal`."),
    attr("lambda", "number", "Of `weibull`."),
    attr("k", "number", "Of `weibull`, `pareto`, `gamma`."),
    attr("x_m", "number", "Of `pareto`."),
    attr("theta", "number", "Of `gamma`."),
    attr("shape", "number", "Of `gpareto`."),
    attr("scale", "number", "Of `gpareto`."),
    attr("location", "number", "Of `gpareto`."),
    attr("n", "number", "Of `negbin`."),
    attr("p", "number", "Of `negbin`."),
];

/// Attributes of `<pause>`.
const PAUSE: &[AttributeDoc] = &[
    attr("milliseconds", "number", "Fixed; without any attribute `-d` decides."),
    attr("variable", "variable", "Milliseconds from a variable."),
    attr("sanity_check", "bool", "Accepted; a pause is bounded anyway."),
    attr("normal", "any", "Short for `distribution=\"normal\"`; so are the five names below."),
    attr("exponential", "any", "See `normal`."),
    attr("lognormal", "any", "See `normal`."),
    attr("weibull", "any", "See `normal`."),
    attr("pareto", "any", "See `normal`."),
    attr("gamma", "any", "See `normal`."),
];

pub(super) const DISTRIBUTION_ATTRIBUTES: &[AttributeDoc] = DISTRIBUTED;

const VARIABLES: &[AttributeDoc] = &[attr("variables", "names", "Separated by commas.")];
const VALUE: &[AttributeDoc] =
    &[attr("value", "numbers", "Upper bounds in milliseconds, separated by commas.")];

const fn element(
    name: &'static str,
    id: ElementName,
    command: bool,
    attributes: &'static [AttributeDoc],
    about: &'static str,
) -> ElementDoc {
    ElementDoc { name, id, command, attributes, about }
}

/// All elements that are steps or stand beside them.
pub(super) const ELEMENTS: &[ElementDoc] = &[
    element(
        "send",
        ElementName::Send,
        true,
        &[
            attr("retrans", "ms", "T1 of retransmissions over UDP; without it the message is sent once."),
            attr("timeout", "ms", "How long it may wait to be sent; default `-send_timeout`."),
            attr("start_txn", "name", "This request opens the transaction of that name."),
            attr("ack_txn", "name", "This ACK belongs to that transaction's INVITE."),
            attr(
                "response_txn",
                "name",
                "This response answers the request that a `recv` with `start_txn` of that name kept; the `[last_…]` \
                 keywords are of that request.",
            ),
        ],
        "Sends the message in its CDATA. Method or status code must be written out.",
    ),
    element(
        "recv",
        ElementName::Recv,
        true,
        &[
            attr(
                "response",
                "code",
                "A response with this status; with `regexp_match`, matching this expression.",
            ),
            attr(
                "request",
                "method",
                "A request with this method; with `regexp_match`, matching this expression.",
            ),
            attr("optional", "true, false, global", "May be skipped; `global` matches from later steps too."),
            attr("regexp_match", "bool", "`request` or `response` is a regular expression."),
            attr("timeout", "ms", "Waits no longer than this; default `-recv_timeout`."),
            attr(
                "timeout_variable",
                "variable",
                "The same, from a variable at each pass; no number, or one below 1, sets no limit. Excludes `timeout`.",
            ),
            attr("rrs", "bool", "Keeps the route set and the remote target for `[routes]` and `[next_url]`."),
            attr("auth", "bool", "Keeps the challenge for `[authentication]`."),
            attr("start_txn", "name", "Keeps this request, for the `send` with `response_txn` of that name."),
            attr("response_txn", "name", "Only responses to the transaction of that name."),
            attr("advance_state", "bool", "`false`: an optional message that leaves the position as it is."),
        ],
        "Waits for a message.",
    ),
    element("pause", ElementName::Pause, true, PAUSE, "Waits. Takes the distributions below."),
    element(
        "timewait",
        ElementName::TimeWait,
        true,
        &[attr("milliseconds", "number", "How long retransmissions of the peer are still answered.")],
        "Ends the scenario; must be its last step.",
    ),
    element("nop", ElementName::Nop, true, &[], "Does nothing but its actions."),
    element(
        "sendCmd",
        ElementName::SendCmd,
        true,
        &[attr("dest", "name", "The peer, in extended 3PCC.")],
        "Sends the command in its CDATA to another instance.",
    ),
    element(
        "recvCmd",
        ElementName::RecvCmd,
        true,
        &[
            attr("src", "name", "The peer, in extended 3PCC."),
            attr("optional", "true, false", "May be skipped."),
        ],
        "Waits for a command of another instance.",
    ),
    element("label", ElementName::Label, false, &[attr("id", "name", "Its name.")], "A place to go to."),
    element("init", ElementName::Init, false, &[], "`nop` and `label` that run once, before the first call."),
    element("Global", ElementName::Global, false, VARIABLES, "Variables that all calls share."),
    element("User", ElementName::User, false, VARIABLES, "Variables that all calls of one user share."),
    element(
        "Reference",
        ElementName::Reference,
        false,
        VARIABLES,
        "Counts as a use, for variables used once.",
    ),
    element(
        "DefaultMessage",
        ElementName::DefaultMessage,
        false,
        &[attr("id", "name", "`3pcc_abort`, `ack`, `ack2`, `bye`, `cancel` or `200`.")],
        "Replaces a message that is sent outside the scenario's steps.",
    ),
    element(
        "ResponseTimeRepartition",
        ElementName::ResponseTimeRepartition,
        false,
        VALUE,
        "Bounds of the response-time table.",
    ),
    element(
        "CallLengthRepartition",
        ElementName::CallLengthRepartition,
        false,
        VALUE,
        "Bounds of the call-length table.",
    ),
];

/// The names of distributions with their parameters, in the order their reader takes them.
#[derive(Debug)]
pub(super) struct DistributionDoc {
    pub(super) name: &'static str,
    pub(super) parameters: &'static [&'static str],
}

/// All values of `distribution`, with their parameters.
pub(super) const DISTRIBUTIONS: &[DistributionDoc] = &[
    DistributionDoc { name: "fixed", parameters: &["value"] },
    DistributionDoc { name: "uniform", parameters: &["min", "max"] },
    DistributionDoc { name: "normal", parameters: &["mean", "stdev"] },
    DistributionDoc { name: "lognormal", parameters: &["mean", "stdev"] },
    DistributionDoc { name: "exponential", parameters: &["mean"] },
    DistributionDoc { name: "weibull", parameters: &["lambda", "k"] },
    DistributionDoc { name: "pareto", parameters: &["k", "x_m"] },
    DistributionDoc { name: "gpareto", parameters: &["shape", "scale", "location"] },
    DistributionDoc { name: "gamma", parameters: &["k", "theta"] },
    DistributionDoc { name: "negbin", parameters: &["p", "n"] },
];

pub(super) use super::lexicon_actions::{ACTIONS, ActionName};
pub(super) use super::lexicon_keywords::{KEYWORDS, KeywordForm, keyword};

/// The known word nearest to what was written, when it is near enough to be meant.
pub(super) fn nearest<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A slip is one edit in a short word; two letters swapped in a longer one are two.
    let most = if written.chars().count() < 4 { 1 } else { 2 };
    known
        .map(|word| (distance(&written.to_lowercase(), &word.to_lowercase()), word))
        .filter(|(edits, _)| *edits <= most)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, word)| word)
}

/// Levenshtein's, over words capped at 40 characters.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().take(40).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (above, left) in left.chars().take(40).enumerate() {
        let mut diagonal = row[0];
        row[0] = above + 1;
        for (at, &right) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}
