//! The types of all crates, with the methods of all their impl blocks.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::source::Source;
use crate::syntax;

/// A type that the workspace defines outside tests and examples.
#[derive(Debug)]
pub(crate) struct WorkspaceType {
    pub(crate) name: String,
    pub(crate) crate_name: String,
    /// Such as `sip::endpoint`.
    pub(crate) module: String,
    /// The file that defines it.
    pub(crate) path: String,
    pub(crate) line: usize,
    /// Methods and associated functions of all impl blocks, traits included, tests excluded.
    pub(crate) methods: usize,
    /// The files that have these impl blocks.
    pub(crate) files: BTreeSet<String>,
    /// Functions beside its methods that may change all of it: they have a parameter `&mut` of it, in its own crate.
    pub(crate) borrowers: usize,
}

impl WorkspaceType {
    /// Such as `sip::endpoint::Endpoint`.
    pub(crate) fn full_name(&self) -> String {
        format!("{}::{}", self.module, self.name)
    }
}

/// All types of the crates, in the order of their files.
pub(crate) fn types(sources: &[Source]) -> Result<Vec<WorkspaceType>> {
    let mut types = Vec::new();
    let mut blocks = Vec::new();
    let mut borrowed = Vec::new();
    let shipped = |source: &&Source| !source.is_test() && !source.is_example();
    for source in sources.iter().filter(shipped) {
        let (Some(crate_name), Some(module)) = (source.crate_name(), source.module_path()) else { continue };
        let syntax = syntax::parse(source)?;
        types.extend(syntax.types.into_iter().map(|found| WorkspaceType {
            name: found.name,
            crate_name: crate_name.to_owned(),
            module: module.clone(),
            path: source.path.clone(),
            line: found.line,
            methods: 0,
            files: BTreeSet::new(),
            borrowers: 0,
        }));
        borrowed
            .extend(syntax.borrowed.into_iter().map(|name| (crate_name.to_owned(), module.clone(), name)));
        blocks.extend(syntax.impls.into_iter().map(|block| (source, module.clone(), block)));
    }
    let mut by_name: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
    for (index, found) in types.iter().enumerate() {
        by_name.entry((found.crate_name.clone(), found.name.clone())).or_default().push(index);
    }
    for (source, module, block) in blocks.into_iter().filter(|(_, _, block)| block.methods > 0) {
        let key = (source.crate_name().unwrap_or_default().to_owned(), block.type_name);
        let candidates = by_name.get(&key).map_or(&[][..], Vec::as_slice);
        if let Some(owner) = nearest(&types, candidates, &module) {
            types[owner].methods += block.methods;
            types[owner].files.insert(source.path.clone());
        }
    }
    for (crate_name, module, name) in borrowed {
        let candidates = by_name.get(&(crate_name, name)).map_or(&[][..], Vec::as_slice);
        if let Some(of) = nearest(&types, candidates, &module) {
            types[of].borrowers += 1;
        }
    }
    Ok(types)
}

/// Several types may have one name: this is the one whose module shares most with that of the impl block.
fn nearest(types: &[WorkspaceType], candidates: &[usize], module: &str) -> Option<usize> {
    let shared = |index: usize| {
        let own = types[index].module.split("::");
        let common = own.clone().zip(module.split("::")).take_while(|(a, b)| a == b).count();
        // With equal shares, the shallower module: an ancestor before a sibling.
        (common, usize::MAX - own.count())
    };
    candidates.iter().copied().max_by_key(|index| shared(*index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_of_all_files_are_added_up() {
        let sources = [
            Source::new("crates/sip/src/endpoint/mod.rs", "pub struct Endpoint; impl Endpoint { fn a() {} }"),
            Source::new("crates/sip/src/endpoint/forward.rs", "impl Endpoint { fn b() {} fn c() {} }"),
            Source::new("crates/sip/src/wire/mod.rs", "struct Line; impl Line { fn a() {} }"),
            Source::new("crates/sip/src/events/mod.rs", "struct Line; impl Line { fn a() {} fn b() {} }"),
            Source::new("crates/sip/src/events/deep.rs", "impl super::Line { fn c() {} }"),
            Source::new("crates/sip/src/tests.rs", "impl Endpoint { fn probe() {} }"),
        ];
        let types = types(&sources).unwrap();
        let found: Vec<_> = types.iter().map(|it| (it.full_name(), it.methods, it.files.len())).collect();
        let expected =
            [("sip::endpoint::Endpoint", 3, 2), ("sip::wire::Line", 1, 1), ("sip::events::Line", 3, 2)];
        assert_eq!(found, expected.map(|(name, methods, files)| (name.to_owned(), methods, files)));
    }

    #[test]
    fn functions_that_may_change_all_of_a_type_are_counted() {
        let sources = [
            Source::new(
                "crates/chat/src/lib.rs",
                "pub struct Host; impl Host { fn merge(&mut self, host: &mut Host) {} }",
            ),
            Source::new(
                "crates/chat/src/route.rs",
                "struct Way; impl Way { fn of(host: &mut Host) {} } fn end(of: u8, host: &'a mut super::Host) {} fn see(host: &Host) {}",
            ),
            Source::new("crates/sip/src/lib.rs", "fn other(host: &mut Host) {}"),
        ];
        let types = types(&sources).unwrap();
        let found: Vec<_> = types.iter().map(|it| (&*it.name, it.borrowers)).collect();
        assert_eq!(found, [("Host", 2), ("Way", 0)]);
    }
}
