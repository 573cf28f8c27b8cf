//! The structure of the source: modules import each other in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates whose modules are checked.
const CRATES: [&str; 5] = ["core", "lab", "lagtrace", "sources", "trial"];

/// The crate of which only the top modules are free of circles.
const TOP_ONLY: &str = "lagtrace";

/// The path of a module in its crate.
type Module = Vec<String>;

/// The modules that each module of a crate imports, with a file that does. Imports are those of
/// modules of one parent: a file of `a/b` that names `a::c::d` makes `a::b` import `a::c`.
type Imports = BTreeMap<Module, BTreeMap<Module, PathBuf>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns all Rust files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of the source");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> = paths
        .flat_map(|path| {
            if path.is_dir() {
                files(&path)
            } else {
                vec![path]
            }
        })
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .collect();
    files.sort();
    files
}

/// Returns the code of a file without comments and without its tests, which end it.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a source file");
    let text = text.split("#[cfg(test)]\nmod tests {").next();
    let lines = text.unwrap_or_default().lines();
    let code = lines.map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

/// Returns the paths that a piece of code of `module` names by `crate::` and `super::`.
fn named(code: &str, module: &[String]) -> Vec<Module> {
    let mut named = Vec::new();
    let is_whole =
        |before: &str| !before.ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c));
    for (at, start) in code.match_indices("crate::") {
        if is_whole(&code[..at]) {
            expand(&code[at + start.len()..], &[], &mut named);
        }
    }
    for (at, _) in code.match_indices("super::") {
        let (mut rest, mut base) = (&code[at..], module);
        while let (Some(behind), Some((_, parent))) =
            (rest.strip_prefix("super::"), base.split_last())
        {
            (rest, base) = (behind, parent);
        }
        if is_whole(&code[..at]) {
            expand(rest, base, &mut named);
        }
    }
    named
}

/// Adds the paths with which `text` begins, each behind `base`, and returns the rest of the text. A
/// group `{a, b::c}` holds several.
fn expand<'t>(text: &'t str, base: &[String], named: &mut Vec<Module>) -> &'t str {
    if let Some(mut group) = text.strip_prefix('{') {
        loop {
            group = group.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            if let Some(rest) = group.strip_prefix('}') {
                return rest;
            }
            let rest = expand(group, base, named);
            let rest = rest.trim_start_matches(|c: char| !",}".contains(c));
            if rest.is_empty() || rest.len() == group.len() {
                return rest;
            }
            group = rest;
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    let (word, rest) = text.split_at(end.unwrap_or(text.len()));
    let path = [base, &[word.to_owned()]].concat();
    match rest.strip_prefix("::") {
        Some(behind) => expand(behind, &path, named),
        None => {
            named.push(path);
            rest
        }
    }
}

fn imports(name: &str) -> Imports {
    let source = root().join("crates").join(name).join("src");
    let is_test = |path: &PathBuf| {
        path.iter()
            .any(|part| part == "tests" || part == "tests.rs")
    };
    let files = files(&source).into_iter().filter(|path| !is_test(path));
    let files: Vec<(Module, PathBuf)> = files
        .filter_map(|path| Some((module(&source, &path)?, path)))
        .collect();
    let mut imports: Imports = files
        .iter()
        .map(|(module, _)| (module.clone(), BTreeMap::new()))
        .collect();
    for (module, path) in &files {
        for other in named(&code(path), module) {
            let shared = module.iter().zip(&other).take_while(|(a, b)| a == b);
            let depth = shared.count() + 1;
            let sides = (module.get(..depth), other.get(..depth));
            let (Some(importer), Some(imported)) = sides else {
                continue;
            };
            if imports.contains_key(imported) {
                let of_it = imports.entry(importer.to_owned()).or_default();
                of_it
                    .entry(imported.to_owned())
                    .or_insert_with(|| path.clone());
            }
        }
    }
    imports
}

/// Returns the module of a file; `None` for the crate's root.
fn module(source: &Path, path: &Path) -> Option<Module> {
    let path = path.strip_prefix(source).ok()?.with_extension("");
    let names = path.iter().map(|name| name.to_str().map(str::to_owned));
    let module: Module = names.collect::<Option<_>>()?;
    (!["lib", "main"].contains(&module.first()?.as_str())).then_some(module)
}

/// Returns the modules that import each other in a circle: those that are left when all that import
/// nothing of the rest are taken away, again and again.
fn circle(imports: &Imports) -> BTreeSet<&Module> {
    let mut left: BTreeSet<&Module> = imports.keys().collect();
    loop {
        let is_free = |module: &&Module| {
            let imported = imports.get(*module).into_iter().flatten();
            !imported.into_iter().any(|(other, _)| left.contains(other))
        };
        let free: Vec<&Module> = left.iter().copied().filter(is_free).collect();
        if free.is_empty() {
            return left;
        }
        left.retain(|module| !free.contains(module));
    }
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    for name in CRATES {
        let mut imports = imports(name);
        assert!(imports.len() > 1, "{name}: no modules found");
        if name == TOP_ONLY {
            imports.retain(|module, _| module.len() == 1);
        }
        let circle = circle(&imports);
        let of_it: Vec<String> = circle
            .iter()
            .flat_map(|module| {
                let imported = imports[*module].iter();
                imported
                    .filter(|(other, _)| circle.contains(other))
                    .map(move |(other, path)| {
                        let (module, other) = (module.join("::"), other.join("::"));
                        format!("{module} imports {other} in {}", path.display())
                    })
            })
            .collect();
        assert!(
            circle.is_empty(),
            "a circle in {name}, or above one:\n{}",
            of_it.join("\n")
        );
    }
}

#[test]
fn what_renders_holds_no_time_against_a_limit() {
    let folder = root().join("crates/lagtrace/src/render");
    let is_limit = |line: &&str| {
        let constant = line.split_once("const ").map(|(_, rest)| rest);
        let of_time = |rest: &str| rest.contains("Duration") || rest.contains("_NS:");
        line.contains("Duration::from_") || constant.is_some_and(of_time)
    };
    for path in files(&folder) {
        let code = code(&path);
        let limits: Vec<&str> = code.lines().filter(is_limit).collect();
        let is_test = path.iter().any(|part| part == "tests");
        assert!(
            is_test || limits.is_empty(),
            "{}: {limits:?}",
            path.display()
        );
    }
}

/// Returns the modules of the core in the order of the table in `ARCHITECTURE.md`.
fn described() -> Vec<String> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let section = text.split("\n## The core, module by module\n").nth(1);
    let section = section.and_then(|rest| rest.split("\n## ").next());
    let rows = section.expect("the section").lines();
    let rows = rows.filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(module, _)| module.to_owned()).collect()
}

#[test]
fn the_core_is_as_architecture_md_says() {
    let described = described();
    let imports = imports("core");
    let tops = imports.keys().filter(|module| module.len() == 1);
    let modules: BTreeSet<&String> = tops.flatten().collect();
    assert_eq!(described.iter().collect::<BTreeSet<_>>(), modules);
    for (row, module) in described.iter().enumerate() {
        for (other, path) in &imports[std::slice::from_ref(module)] {
            let mut above = described.iter().take(row);
            assert!(
                above.any(|above| other[..] == [above.clone()]),
                "{module} imports {other:?}, which stands below it: {}",
                path.display()
            );
        }
    }
}

/// The directives that no row is about but on which the tests of rows depend.
const DEPENDED_ON: [&str; 3] = ["limit_conn_dry_run", "limit_req_dry_run", "sendfile"];

#[test]
fn the_directives_that_are_resolved_are_those_that_explain_a_finding() {
    // The readers of Apache's and haproxy's files have no table; their directives are no words of
    // nginx's.
    let explaining = lagtrace_core::cause::directives().map(str::to_owned);
    let explaining = explaining.filter(|directive| {
        let is_apaches = directive.starts_with(|first: char| first.is_ascii_uppercase());
        !is_apaches
            && !["option ", "timeout "]
                .iter()
                .any(|of| directive.starts_with(of))
    });
    let needed = explaining.chain(DEPENDED_ON.map(str::to_owned));
    let resolved: BTreeSet<String> = lagtrace_sources::config::nginx::directives().collect();
    assert_eq!(needed.collect::<BTreeSet<_>>(), resolved);
}
