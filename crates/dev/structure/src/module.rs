//! Reads the modules of a crate, and the paths in these modules.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    path::{Path, PathBuf},
};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// The reason why a crate's sources could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(String);

impl ReadError {
    pub(crate) fn at(place: &Path, why: &dyn std::fmt::Display) -> Self {
        Self(format!("{}: {why}", place.display()))
    }
}

/// A module, which is a file or a block in a file.
#[derive(Debug, Default)]
pub(crate) struct Module {
    path: Vec<String>,
    /// The module's file, as a path below `src`.
    file: String,
    children: HashMap<String, usize>,
    items: HashSet<String>,
    /// The paths of `use` declarations, by the names that the declarations define.
    names: HashMap<String, Vec<String>>,
    /// The paths of `pub use` declarations.
    passed_on: HashSet<Vec<String>>,
    globs: Vec<Vec<String>>,
    /// Paths of two names or more outside `use` declarations.
    inline: Vec<Vec<String>>,
}

/// The modules of a crate's `src`.
pub struct Crate {
    src: PathBuf,
    modules: Vec<Module>,
}

impl Crate {
    /// Reads the crate in a folder.
    ///
    /// # Errors
    /// The crate has no `src/lib.rs`, or a module's file does not exist or is not valid Rust.
    pub fn read(folder: &Path) -> Result<Self, ReadError> {
        let mut found = Self {
            src: folder.join("src"),
            modules: Vec::new(),
        };
        found.load_file(Vec::new(), "lib.rs".to_owned())?;
        Ok(found)
    }

    /// Returns the files, as paths below `src`.
    pub fn files(&self) -> BTreeSet<&str> {
        self.modules.iter().map(|it| it.file.as_str()).collect()
    }

    fn load_file(&mut self, path: Vec<String>, file: String) -> Result<usize, ReadError> {
        let place = self.src.join(&file);
        let text =
            std::fs::read_to_string(&place).map_err(|error| ReadError::at(&place, &error))?;
        let parsed = syn::parse_file(&text).map_err(|error| ReadError::at(&place, &error))?;
        self.load(path, file, &parsed.items)
    }

    /// Adds a module and its inner modules. Returns the module's index.
    fn load(
        &mut self,
        path: Vec<String>,
        file: String,
        items: &[syn::Item],
    ) -> Result<usize, ReadError> {
        let index = self.modules.len();
        self.modules.push(Module {
            path: path.clone(),
            file: file.clone(),
            ..Module::default()
        });
        for item in items {
            if is_of_tests(item) {
                continue;
            }
            let syn::Item::Mod(module) = item else {
                self.modules[index].add(item);
                continue;
            };
            let name = module.ident.to_string();
            let below = [path.as_slice(), std::slice::from_ref(&name)].concat();
            let child = match &module.content {
                Some((_, items)) => self.load(below, file.clone(), items)?,
                None => {
                    let file = path_attribute(&file, module);
                    let file = file.unwrap_or_else(|| self.file_of(&below));
                    self.load_file(below, file)?
                }
            };
            self.modules[index].children.insert(name, child);
        }
        Ok(index)
    }

    /// Returns the file of a module that is declared without a block.
    fn file_of(&self, path: &[String]) -> String {
        let plain = format!("{}.rs", path.join("/"));
        if self.src.join(&plain).exists() {
            return plain;
        }
        format!("{}/mod.rs", path.join("/"))
    }

    /// Returns the arrows: pairs of a file and another file that defines an item which the first file uses.
    pub fn arrows(&self) -> BTreeSet<(&str, &str)> {
        let mut found = BTreeSet::new();
        for (index, module) in self.modules.iter().enumerate() {
            let named = module.names.values().chain(&module.globs);
            for path in named.chain(&module.inline) {
                let Some(target) = self.find(index, path, &mut HashSet::new()) else {
                    continue;
                };
                let target = &self.modules[target];
                let is_whole_module = target.path.last() == path.last();
                let is_seen = !is_whole_module || module.passed_on.contains(path);
                if is_seen && target.file != module.file {
                    found.insert((module.file.as_str(), target.file.as_str()));
                }
            }
        }
        found
    }

    /// Returns the module that defines the item to which `path` refers in the module `index`. Returns `None` if another
    /// crate defines the item.
    fn find(
        &self,
        index: usize,
        path: &[String],
        seen: &mut HashSet<(usize, Vec<String>)>,
    ) -> Option<usize> {
        let module = &self.modules[index];
        let Some((first, rest)) = path.split_first() else {
            return Some(index);
        };
        if !seen.insert((index, path.to_vec())) {
            return None;
        }
        let below = match module.children.get(first) {
            Some(child) => Some(*child),
            None => self.root(module, index, first),
        };
        if let Some(below) = below {
            return self.find(below, rest, seen);
        }
        if let Some(used) = module.names.get(first) {
            return self.find(index, &[used.as_slice(), rest].concat(), seen);
        }
        if module.items.contains(first) {
            return Some(index);
        }
        for glob in &module.globs {
            let Some(target) = self.find(index, glob, seen) else {
                continue;
            };
            let of = &self.modules[target];
            let has_it = of.items.contains(first)
                || of.names.contains_key(first)
                || of.children.contains_key(first);
            if has_it {
                return self.find(target, path, seen);
            }
        }
        None
    }

    /// Returns the module that `crate`, `self` or `super` refers to.
    fn root(&self, module: &Module, index: usize, first: &str) -> Option<usize> {
        match first {
            "crate" => Some(0),
            "self" => Some(index),
            "super" => {
                let above = module.path.split_last()?.1;
                self.modules.iter().position(|it| it.path == above)
            }
            _ => None,
        }
    }
}

impl Module {
    fn add(&mut self, item: &syn::Item) {
        match item {
            syn::Item::Use(item) => {
                let is_passed_on = !matches!(item.vis, syn::Visibility::Inherited);
                self.add_use(&mut Vec::new(), &item.tree, is_passed_on);
                return;
            }
            syn::Item::Const(item) => self.define(&item.ident),
            syn::Item::Enum(item) => self.define(&item.ident),
            syn::Item::Fn(item) => self.define(&item.sig.ident),
            syn::Item::Static(item) => self.define(&item.ident),
            syn::Item::Struct(item) => self.define(&item.ident),
            syn::Item::Trait(item) => self.define(&item.ident),
            syn::Item::Type(item) => self.define(&item.ident),
            syn::Item::Union(item) => self.define(&item.ident),
            syn::Item::Macro(item) => match &item.ident {
                Some(name) => self.define(name),
                // The macro may define any of the names in its arguments.
                None => self.define_all(item.mac.tokens.clone()),
            },
            _ => {}
        }
        self.visit_item(item);
    }

    fn define(&mut self, name: &syn::Ident) {
        self.items.insert(name.to_string());
    }

    fn define_all(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Ident(name) => self.define(&name),
                TokenTree::Group(group) => self.define_all(group.stream()),
                _ => {}
            }
        }
    }

    fn add_use(&mut self, before: &mut Vec<String>, tree: &syn::UseTree, is_passed_on: bool) {
        let (path, name) = match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.add_use(before, &path.tree, is_passed_on);
                before.pop();
                return;
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_use(before, tree, is_passed_on);
                }
                return;
            }
            syn::UseTree::Glob(_) => {
                self.globs.push(before.clone());
                return;
            }
            syn::UseTree::Name(name) => (name.ident.to_string(), None),
            syn::UseTree::Rename(name) => (name.ident.to_string(), Some(name.rename.to_string())),
        };
        // `a::{self}` has the same meaning as `a`.
        let is_self = path == "self" && !before.is_empty();
        let whole = if is_self {
            before.clone()
        } else {
            [before.as_slice(), &[path]].concat()
        };
        let name = name.or_else(|| whole.last().cloned());
        if is_passed_on {
            self.passed_on.insert(whole.clone());
        }
        self.names.insert(name.unwrap_or_default(), whole);
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            let names = path.segments.iter().map(|it| it.ident.to_string());
            self.inline.push(names.collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, of: &'ast syn::Macro) {
        self.inline.extend(paths_in(of.tokens.clone()));
        visit::visit_macro(self, of);
    }
}

/// Returns the file in the `#[path]` of a module in `file`.
fn path_attribute(file: &str, module: &syn::ItemMod) -> Option<String> {
    let path = module.attrs.iter().find(|it| it.path().is_ident("path"))?;
    let syn::Meta::NameValue(pair) = &path.meta else {
        return None;
    };
    let syn::Expr::Lit(syn::ExprLit {
        lit: syn::Lit::Str(name),
        ..
    }) = &pair.value
    else {
        return None;
    };
    let folder = Path::new(file).parent()?;
    Some(folder.join(name.value()).display().to_string())
}

/// Returns the paths of two names or more in the arguments of a macro.
fn paths_in(tokens: TokenStream) -> Vec<Vec<String>> {
    let (mut found, mut path, mut n_colons) = (Vec::new(), Vec::new(), 0);
    for token in tokens {
        match token {
            TokenTree::Punct(colon) if colon.as_char() == ':' && !path.is_empty() => n_colons += 1,
            TokenTree::Ident(name) if n_colons == 2 => {
                path.push(name.to_string());
                n_colons = 0;
            }
            other => {
                found.push(std::mem::take(&mut path));
                n_colons = 0;
                match other {
                    TokenTree::Ident(name) => path.push(name.to_string()),
                    TokenTree::Group(group) => found.extend(paths_in(group.stream())),
                    _ => {}
                }
            }
        }
    }
    found.push(path);
    found.retain(|path| path.len() > 1);
    found
}

/// Returns whether an item is compiled only for tests.
pub(crate) fn is_of_tests(item: &syn::Item) -> bool {
    let attributes = match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(|it| {
        let condition = it
            .path()
            .is_ident("cfg")
            .then(|| it.parse_args::<syn::Path>());
        matches!(condition, Some(Ok(name)) if name.is_ident("test"))
    })
}
