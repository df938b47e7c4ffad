//! The nodes of a farm that took part in an answer, so that a list or a sum says of which nodes it is.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The nodes that answered a request to all nodes of a farm, and those that did not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodesAnswered {
    /// The names of the nodes that answered, the asked node first.
    pub answered: Vec<Box<str>>,
    /// The nodes whose part is missing.
    pub missing: Vec<MissingNode>,
}

/// A node whose part of an answer is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingNode {
    /// The node's name.
    pub name: Box<str>,
    /// The reason that the node gave; none: it did not answer in time.
    pub reason: Option<Box<str>>,
}

impl NodesAnswered {
    /// The number of nodes that were asked.
    pub fn total(&self) -> usize {
        self.answered.len() + self.missing.len()
    }

    /// True if no node's part is missing.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// The names of the nodes whose part is missing, `n2, n5`; none if no part is missing.
    pub fn names_of_missing(&self) -> Option<String> {
        let names: Vec<&str> = self.missing.iter().map(|node| &*node.name).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// `3 of 3 nodes answered`, `6 of 8 nodes answered (n2 and n5 did not)`, `2 of 3 nodes answered (n2: too many requests)`.
impl fmt::Display for NodesAnswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} nodes answered", self.answered.len(), self.total())?;
        if self.is_complete() {
            return Ok(());
        }
        let silent = self.missing.iter().filter(|node| node.reason.is_none());
        let silent: Vec<&str> = silent.map(|node| &*node.name).collect();
        let mut parts = Vec::new();
        if let Some((last, names)) = silent.split_last() {
            let names = if names.is_empty() { String::new() } else { format!("{} and ", names.join(", ")) };
            parts.push(format!("{names}{last} did not"));
        }
        let refused = self.missing.iter().filter_map(|node| Some((&node.name, node.reason.as_ref()?)));
        parts.extend(refused.map(|(name, reason)| format!("{name}: {reason}")));
        write!(f, " ({})", parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_the_nodes_that_did_not_answer() {
        let missing = |name: &str, reason: Option<&str>| MissingNode {
            name: name.into(),
            reason: reason.map(Into::into),
        };
        let mut nodes = NodesAnswered { answered: vec!["n1".into(), "n3".into()], missing: Vec::new() };
        assert_eq!(nodes.to_string(), "2 of 2 nodes answered");
        assert_eq!((nodes.is_complete(), nodes.names_of_missing()), (true, None));
        nodes.missing.push(missing("n5", None));
        assert_eq!(nodes.to_string(), "2 of 3 nodes answered (n5 did not)");
        nodes.missing.push(missing("n4", Some("too many requests")));
        nodes.missing.push(missing("n2", None));
        let text = "2 of 5 nodes answered (n5 and n2 did not; n4: too many requests)";
        assert_eq!(nodes.to_string(), text);
        assert_eq!(nodes.names_of_missing().as_deref(), Some("n5, n4, n2"));
    }
}
