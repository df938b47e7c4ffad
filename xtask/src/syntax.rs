//! The definitions of a source file, through `syn`: types, impl blocks and public items outside tests. Items that macros
//! make, and items inside functions, are not seen.

use anyhow::{Context, Result};
use proc_macro2::Span;
use syn::{Attribute, FnArg, ImplItem, Item, Meta, Signature, TraitItem, Type, Visibility};

use crate::source::Source;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TypeDefinition {
    pub(crate) name: String,
    pub(crate) line: usize,
}

#[derive(Debug)]
pub(crate) struct ImplBlock {
    /// The last segment of the type's path.
    pub(crate) type_name: String,
    pub(crate) methods: usize,
}

#[derive(Debug)]
pub(crate) struct PublicItem {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) is_documented: bool,
}

/// The definitions of one file.
#[derive(Debug, Default)]
pub(crate) struct Syntax {
    pub(crate) types: Vec<TypeDefinition>,
    pub(crate) impls: Vec<ImplBlock>,
    /// The types of parameters `&mut T` of functions and of methods of other types, each as often as there are such functions.
    pub(crate) borrowed: Vec<String>,
    pub(crate) public: Vec<PublicItem>,
}

pub(crate) fn parse(source: &Source) -> Result<Syntax> {
    let file = syn::parse_file(&source.text).with_context(|| format!("{} cannot be parsed", source.path))?;
    let mut syntax = Syntax::default();
    syntax.add_items(&file.items);
    Ok(syntax)
}

impl Syntax {
    fn add_items(&mut self, items: &[Item]) {
        items.iter().for_each(|item| self.add_item(item));
    }

    fn add_item(&mut self, item: &Item) {
        match item {
            Item::Struct(it) => self.add_type(&it.ident, &it.vis, &it.attrs),
            Item::Enum(it) => self.add_type(&it.ident, &it.vis, &it.attrs),
            Item::Union(it) => self.add_type(&it.ident, &it.vis, &it.attrs),
            Item::Type(it) => self.add_type(&it.ident, &it.vis, &it.attrs),
            Item::Trait(it) if !is_test(&it.attrs) => {
                self.add_type(&it.ident, &it.vis, &it.attrs);
                for item in &it.items {
                    if let TraitItem::Fn(method) = item {
                        self.add_public(&method.sig.ident, &it.vis, &method.attrs);
                    }
                }
            }
            Item::Impl(it) if !is_test(&it.attrs) => self.add_impl(it),
            Item::Fn(it) if !is_test(&it.attrs) => {
                self.borrowed.extend(borrowed_types(&it.sig));
                self.add_public(&it.sig.ident, &it.vis, &it.attrs);
            }
            Item::Const(it) => self.add_public(&it.ident, &it.vis, &it.attrs),
            Item::Static(it) => self.add_public(&it.ident, &it.vis, &it.attrs),
            // A module in a file of its own has its documentation there.
            Item::Mod(it) if !is_test(&it.attrs) => {
                if let Some((_, items)) = &it.content {
                    self.add_public(&it.ident, &it.vis, &it.attrs);
                    self.add_items(items);
                }
            }
            _ => {}
        }
    }

    fn add_type(&mut self, name: &syn::Ident, visibility: &Visibility, attributes: &[Attribute]) {
        if !is_test(attributes) {
            self.types.push(TypeDefinition { name: name.to_string(), line: line(name.span()) });
            self.add_public(name, visibility, attributes);
        }
    }

    fn add_public(&mut self, name: &syn::Ident, visibility: &Visibility, attributes: &[Attribute]) {
        if matches!(visibility, Visibility::Public(_)) && !is_test(attributes) {
            let is_documented = attributes.iter().any(|attribute| attribute.path().is_ident("doc"));
            self.public.push(PublicItem { name: name.to_string(), line: line(name.span()), is_documented });
        }
    }

    fn add_impl(&mut self, block: &syn::ItemImpl) {
        let Some(type_name) = type_name(&block.self_ty) else { return };
        let methods = block.items.iter().filter_map(|item| match item {
            ImplItem::Fn(method) if !is_test(&method.attrs) => Some(method),
            _ => None,
        });
        let mut count = 0;
        for method in methods {
            count += 1;
            self.borrowed.extend(borrowed_types(&method.sig).filter(|name| *name != type_name));
            if block.trait_.is_none() {
                self.add_public(&method.sig.ident, &method.vis, &method.attrs);
            }
        }
        self.impls.push(ImplBlock { type_name, methods: count });
    }
}

/// The types of which a function has a mutable reference as a parameter of its own.
fn borrowed_types(signature: &Signature) -> impl Iterator<Item = String> {
    signature.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(parameter) => match &*parameter.ty {
            Type::Reference(reference) if reference.mutability.is_some() => type_name(&reference.elem),
            _ => None,
        },
        FnArg::Receiver(_) => None,
    })
}

fn type_name(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
        Type::Reference(reference) => type_name(&reference.elem),
        _ => None,
    }
}

/// `#[cfg(test)]`, alone or among other conditions, and `#[test]`.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition == "test" || condition.contains("(test") && !condition.contains("not")
        }
        _ => false,
    })
}

fn line(span: Span) -> usize {
    span.start().line
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
/// Documented.
pub struct A;
pub(crate) enum B { X }
impl A { pub fn new() -> A { A } fn inner(&self) {} #[cfg(test)] fn probe() {} }
impl<T> From<T> for B { fn from(_: T) -> B { B::X } }
pub trait C { fn handle(&self); }
#[cfg(test)]
mod tests { struct Hidden; impl Hidden { fn x() {} } pub fn helper() {} }
pub mod inline { pub type D = u8; }
";

    #[test]
    fn definitions_outside_tests_are_found() {
        let syntax = parse(&Source::new("x.rs", TEXT)).unwrap();
        let types: Vec<_> = syntax.types.iter().map(|it| (it.name.as_str(), it.line)).collect();
        assert_eq!(types, [("A", 3), ("B", 4), ("C", 7), ("D", 10)]);
        let impls: Vec<_> = syntax.impls.iter().map(|it| (it.type_name.as_str(), it.methods)).collect();
        assert_eq!(impls, [("A", 2), ("B", 1)]);
        let public: Vec<_> = syntax.public.iter().map(|it| (it.name.as_str(), it.is_documented)).collect();
        let expected =
            [("A", true), ("new", false), ("C", false), ("handle", false), ("inline", false), ("D", false)];
        assert_eq!(public, expected);
    }
}
