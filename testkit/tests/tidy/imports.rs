//! No files of a crate import each other in a circle, and no layer imports one above it.
//!
//! A file imports another if it names something of it: by a path that begins with `crate`, `super`,
//! `self` or a child module. A path to a re-export leads to the file that has the item. Code that
//! only tests have does not count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates without circles.
const CRATES: &[&str] = &["benches", "file-core", "verify"];

/// The crates in layers, from the top down. A layer is a folder and the file of the same name.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "file-core",
        &["handles", "volume", "recover", "object", "log", "medium"],
    ),
    (
        "object-store",
        &["store", "ids", "regions", "error", "space"],
    ),
    (
        "record-lock",
        &["lock", "table", "holds", "ranges", "error", "hold"],
    ),
];

/// A path of the code, such as `crate::mode::Mode`.
type Names = Vec<String>;

/// What a module's code says. Modules are named by their path from the crate's root.
#[derive(Default)]
struct Module {
    file: PathBuf,
    children: BTreeSet<String>,
    /// The items that the module defines itself.
    items: BTreeSet<String>,
    /// The names that `use` brings into the module, and where they come from.
    uses: BTreeMap<String, Names>,
    /// The modules of which `use` brings all names.
    globs: Vec<Names>,
    /// All paths in the code.
    paths: Vec<Names>,
}

#[derive(Default)]
struct Crate(BTreeMap<Names, Module>);

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Divides code into names, `::` and single characters. Leaves out comments and the contents of
/// literals.
fn tokens(text: &str) -> Vec<String> {
    let text: Vec<char> = text.chars().collect();
    let at = |i: usize| text.get(i).copied().unwrap_or('\n');
    let find = |from: usize, end: &str| {
        let end: Vec<char> = end.chars().collect();
        let found = (from..text.len()).find(|&i| text[i..].starts_with(&end));
        found.map_or(text.len(), |i| i + end.len())
    };
    let (mut tokens, mut i) = (Vec::new(), 0);
    while i < text.len() {
        let start = i;
        match (at(i), at(i + 1)) {
            ('/', '/') => i = find(i, "\n"),
            ('/', '*') => i = find(i, "*/"),
            (':', ':') => {
                tokens.push("::".to_owned());
                i += 2;
            }
            ('"', _) => {
                i += 1;
                while i < text.len() && at(i) != '"' {
                    i += 1 + usize::from(at(i) == '\\');
                }
                i += 1;
                tokens.push("\"".to_owned());
            }
            ('\'', '\\') => i = find(i + 3, "'"),
            ('\'', _) if at(i + 2) == '\'' => i += 3,
            (c, _) if c.is_alphanumeric() || c == '_' => {
                while at(i).is_alphanumeric() || at(i) == '_' {
                    i += 1;
                }
                let name: String = text[start..i].iter().collect();
                let hashes = text[i..].iter().take_while(|c| **c == '#').count();
                if matches!(&*name, "r" | "br") && at(i + hashes) == '"' {
                    i = find(i + hashes + 1, &format!("\"{}", "#".repeat(hashes)));
                } else {
                    tokens.push(name);
                }
            }
            (c, _) => {
                if !c.is_whitespace() {
                    tokens.push(c.to_string());
                }
                i += 1;
            }
        }
    }
    tokens
}

/// Returns the index of the bracket that closes the one at `open`.
fn closing(tokens: &[String], open: usize) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        match &**token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i;
        }
    }
    panic!("a bracket is not closed");
}

impl Crate {
    /// Reads all modules of the crate in `folder`.
    fn read(folder: &Path) -> Self {
        let mut all = Crate::default();
        let source = folder.join("src");
        all.read_file(&[], &source.join("lib.rs"), &source);
        all
    }

    /// Reads a module's file. The files of its children are in `folder`.
    fn read_file(&mut self, module: &[String], file: &Path, folder: &Path) {
        let text = fs::read_to_string(file).expect("a module's file");
        self.read_module(module, file, folder, &tokens(&text));
    }

    fn read_module(&mut self, module: &[String], file: &Path, folder: &Path, tokens: &[String]) {
        let at = |i: usize| tokens.get(i).map_or("", |it| &**it);
        let mut this = self.0.remove(module).unwrap_or_default();
        this.file = file.to_owned();
        let (mut i, mut is_test) = (0, false);
        while i < tokens.len() {
            let is_start = i == 0 || matches!(at(i - 1), ";" | "{" | "}" | "]" | ")" | "pub");
            match (at(i), at(i + 1)) {
                ("#", "[") => {
                    let end = closing(tokens, i + 1);
                    let words = &tokens[i + 2..end];
                    is_test |= words[0] == "cfg" && words.contains(&"test".to_owned());
                    i = end + 1;
                }
                _ if is_test => {
                    while !matches!(at(i), "{" | ";") {
                        i = if at(i) == "(" { closing(tokens, i) } else { i } + 1;
                    }
                    i = if at(i) == "{" { closing(tokens, i) } else { i } + 1;
                    is_test = false;
                }
                ("mod", name) if matches!(at(i + 2), ";" | "{") => {
                    this.children.insert(name.to_owned());
                    let child = [module, &[name.to_owned()]].concat();
                    let below = folder.join(name);
                    if at(i + 2) == "{" {
                        let end = closing(tokens, i + 2);
                        self.read_module(&child, file, &below, &tokens[i + 3..end]);
                        i = end + 1;
                    } else {
                        let files = [below.with_extension("rs"), below.join("mod.rs")];
                        let its = files.iter().find(|file| file.exists());
                        self.read_file(&child, its.expect("the module's file"), &below);
                        i += 3;
                    }
                }
                ("use", _) if is_start => i = this.read_use(tokens, i + 1, &[]) + 1,
                (first, "::") if is_name(first) && (i == 0 || at(i - 1) != "::") => {
                    let mut path = vec![first.to_owned()];
                    while at(i + 1) == "::" && is_name(at(i + 2)) {
                        path.push(at(i + 2).to_owned());
                        i += 2;
                    }
                    this.paths.push(path);
                    i += 1;
                }
                (kind, name) => {
                    let kinds = [
                        "fn", "struct", "enum", "union", "trait", "type", "const", "static",
                    ];
                    if kinds.contains(&kind) {
                        this.items.insert(name.to_owned());
                    } else if kind == "macro_rules" {
                        this.items.insert(at(i + 2).to_owned());
                    }
                    i += 1;
                }
            }
        }
        self.0.insert(module.to_vec(), this);
    }

    /// Returns the module that has what `path` names in `module`, or `None` if it is in another
    /// crate.
    fn module_of(&self, module: &[String], path: &[String]) -> Option<Names> {
        let mut at = module.to_vec();
        let mut rest = path;
        match &*path[0] {
            "crate" => (at, rest) = (vec![], &path[1..]),
            "self" | "super" => {}
            child if self.0[module].children.contains(child) => {}
            _ => return None,
        }
        while let [first, more @ ..] = rest {
            let here = &self.0[&at];
            match &**first {
                "self" => {}
                "super" => _ = at.pop(),
                _ if here.children.contains(first) => at.push(first.clone()),
                _ => return Some(self.source(&at, first, more)),
            }
            rest = more;
        }
        Some(at)
    }

    /// Returns the module from which `module` has a name.
    fn source(&self, module: &[String], name: &String, more: &[String]) -> Names {
        let here = &self.0[module];
        let used = here
            .uses
            .get(name)
            .filter(|used| used[..] != [name.clone()]);
        let used = used.map(|used| [used, more].concat());
        let used = used.and_then(|used| self.module_of(module, &used));
        let of_glob = |glob: &Names| {
            let from = self.module_of(module, &[&glob[..], std::slice::from_ref(name)].concat())?;
            self.0[&from].items.contains(name).then_some(from)
        };
        let is_here = here.items.contains(name);
        used.or_else(|| here.globs.iter().filter(|_| !is_here).find_map(of_glob))
            .unwrap_or_else(|| module.to_vec())
    }

    /// Returns which file imports which, and by which names.
    fn imports(&self) -> BTreeMap<&Path, BTreeMap<&Path, BTreeSet<String>>> {
        let mut imports: BTreeMap<_, BTreeMap<_, BTreeSet<_>>> = BTreeMap::new();
        for (name, module) in &self.0 {
            for path in &module.paths {
                let Some(from) = self.module_of(name, path) else {
                    continue;
                };
                let file = &*self.0[&from].file;
                if file != module.file {
                    let its = imports.entry(&*module.file).or_default();
                    its.entry(file).or_default().insert(path.join("::"));
                }
            }
        }
        imports
    }
}

impl Module {
    /// Reads the tree of a `use`. Returns the index of the token after it.
    fn read_use(&mut self, tokens: &[String], mut i: usize, prefix: &[String]) -> usize {
        let mut path = prefix.to_vec();
        loop {
            match &*tokens[i] {
                "::" => i += 1,
                "{" => {
                    i += 1;
                    while tokens[i] != "}" {
                        i = self.read_use(tokens, i, &path);
                        i += usize::from(tokens[i] == ",");
                    }
                    return i + 1;
                }
                "*" => {
                    self.globs.push(path.clone());
                    self.paths.push(path);
                    return i + 1;
                }
                name => {
                    path.push(name.to_owned());
                    i += 1;
                    if tokens[i] == "::" {
                        continue;
                    }
                    if name == "self" && path.len() > 1 {
                        path.pop();
                    }
                    let mut name = path.last().expect("a name").clone();
                    if tokens[i] == "as" {
                        name.clone_from(&tokens[i + 1]);
                        i += 2;
                    }
                    self.uses.insert(name, path.clone());
                    self.paths.push(path);
                    return i;
                }
            }
        }
    }
}

/// Returns a shortest circle of imports, with the names that tie it, or nothing if there is none.
fn circle(folder: &Path) -> Vec<String> {
    let all = Crate::read(folder);
    let imports = all.imports();
    let none = BTreeMap::new();
    let of = |file: &Path| imports.get(file).unwrap_or(&none);
    let mut circles = Vec::new();
    for start in imports.keys() {
        let mut before: BTreeMap<&Path, &Path> = BTreeMap::new();
        let mut next = VecDeque::from([*start]);
        while let Some(file) = next.pop_front() {
            for other in of(file).keys() {
                if !before.contains_key(other) {
                    before.insert(other, file);
                    next.push_back(other);
                }
            }
            if before.contains_key(start) {
                break;
            }
        }
        let mut circle = Vec::new();
        let mut at = *start;
        while let Some(file) = before.get(at).filter(|_| before.contains_key(start)) {
            circle.push((*file, at));
            at = file;
            if at == *start {
                break;
            }
        }
        circle.reverse();
        circles.push(circle);
    }
    circles.retain(|circle| !circle.is_empty());
    let shortest = circles.iter().min_by_key(|circle| circle.len());
    let short = |file: &Path| {
        file.strip_prefix(folder)
            .expect("in it")
            .display()
            .to_string()
    };
    let tie = |(file, other): &(&Path, &Path)| {
        let names: Vec<&str> = of(file)[other].iter().map(String::as_str).collect();
        format!(
            "{} uses {} of {}",
            short(file),
            names.join(", "),
            short(other)
        )
    };
    shortest.into_iter().flatten().map(tie).collect()
}

#[test]
fn files_do_not_import_each_other_in_a_circle() {
    for name in CRATES {
        let circle = circle(&crate::project().join(name));
        assert!(
            circle.is_empty(),
            "{name}: a circle:\n{}",
            circle.join("\n")
        );
    }
}

/// Returns the files of a crate that are in no layer, and the imports of a higher layer.
fn misplaced(folder: &Path, layers: &[&str]) -> Vec<String> {
    let all = Crate::read(folder);
    let short = |file: &Path| file.strip_prefix(folder).expect("in it").to_owned();
    let layer = |file: &Path| {
        let below = short(file).iter().nth(1).map(PathBuf::from)?;
        let name = below.with_extension("");
        layers.iter().position(|it| Path::new(it) == name)
    };
    let mut wrong = Vec::new();
    for (name, module) in &all.0 {
        if !name.is_empty() && layer(&module.file).is_none() {
            wrong.push(format!("{} is in no layer", short(&module.file).display()));
        }
    }
    for (file, others) in all.imports() {
        let Some(its) = layer(file) else { continue };
        for other in others.keys() {
            if layer(other).is_some_and(|other| other < its) {
                let [file, other] = [file, other].map(short);
                wrong.push(format!("{} imports {}", file.display(), other.display()));
            }
        }
    }
    wrong
}

#[test]
fn no_layer_imports_a_higher_one() {
    for (name, layers) in LAYERS {
        let wrong = misplaced(&crate::project().join(name), layers);
        assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
    }
}

/// Writes the files of a crate. Returns its folder.
fn written(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    for (name, text) in files {
        let file = folder.join("src").join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("can create");
        fs::write(file, text).expect("can write");
    }
    folder
}

/// Writes the files of a crate, and returns its circle.
fn circle_of(files: &[(&str, &str)]) -> Vec<String> {
    circle(&written("circle", files))
}

#[test]
fn an_import_of_a_higher_layer_is_found() {
    let files = [
        ("lib.rs", "mod high; mod low; mod other;"),
        ("high.rs", "use crate::low::deep::Deep; pub struct High;"),
        ("low.rs", "pub mod deep;"),
        ("low/deep.rs", "pub struct Deep(crate::high::High);"),
        ("other.rs", ""),
    ];
    let found = misplaced(&written("layers", &files), &["high", "low"]);
    let expected = [
        "src/other.rs is in no layer",
        "src/low/deep.rs imports src/high.rs",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_circle_is_found_through_re_exports_and_named() {
    let lib = ("lib.rs", "mod a; mod b; mod c;");
    let a = (
        "a.rs",
        "use crate::b::{self, Less}; fn more() { b::less() }",
    );
    let b = ("b.rs", "mod low; pub use low::Less; pub fn less() {}");
    let c = ("c.rs", "pub use crate::a::More; // crate::low");
    let low = "#[cfg(test)] mod tests { use crate::a::More; } const S: &str = \"crate::a::More\";";
    assert!(circle_of(&[lib, a, b, c, ("b/low.rs", low)]).is_empty());
    let low = "pub struct Less(super::super::c::More);";
    let found = circle_of(&[lib, a, b, c, ("b/low.rs", low)]);
    let expected = [
        "src/a.rs uses crate::b::Less of src/b/low.rs",
        "src/b/low.rs uses super::super::c::More of src/a.rs",
    ];
    assert_eq!(found, expected);
}
