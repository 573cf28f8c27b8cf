//! The structure of the source: modules import each other in one direction.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates whose modules are checked.
const CRATES: [&str; 4] = ["core", "lagtrace", "sources", "trial"];

/// The modules that each module of a crate imports, with a file that does.
type Imports = BTreeMap<String, BTreeMap<String, PathBuf>>;

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

/// Returns the modules of the crate that a piece of code names by `crate::`.
fn named(code: &str) -> BTreeSet<String> {
    let paths = code.split("crate::").skip(1).zip(code.split("crate::"));
    let whole =
        paths.filter(|(_, before)| !before.ends_with(|c: char| c.is_alphanumeric() || c == '_'));
    let word = |text: &str| {
        let letters = text
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_');
        letters.collect::<String>()
    };
    whole.map(|(after, _)| word(after)).collect()
}

fn imports(name: &str) -> Imports {
    let source = root().join("crates").join(name).join("src");
    let modules: BTreeSet<String> = files(&source)
        .iter()
        .filter_map(|path| module(&source, path))
        .collect();
    let mut imports = Imports::new();
    for path in files(&source) {
        let is_test = path
            .iter()
            .any(|part| part == "tests" || part == "tests.rs");
        let Some(module) = module(&source, &path).filter(|_| !is_test) else {
            continue;
        };
        let named = named(&code(&path));
        let imported = imports.entry(module.clone()).or_default();
        for other in named
            .into_iter()
            .filter(|other| *other != module && modules.contains(other))
        {
            imported.entry(other).or_insert_with(|| path.clone());
        }
    }
    imports
}

/// Returns the top module of a file; `None` for the crate's root.
fn module(source: &Path, path: &Path) -> Option<String> {
    let path = path.strip_prefix(source).ok()?;
    let first = Path::new(path.iter().next()?).file_stem()?.to_str()?;
    (!["lib", "main"].contains(&first)).then(|| first.to_owned())
}

/// Returns the modules that import each other in a circle: those that are left when all that import
/// nothing of the rest are taken away, again and again.
fn circle(imports: &Imports) -> BTreeSet<&str> {
    let mut left: BTreeSet<&str> = imports.keys().map(String::as_str).collect();
    loop {
        let is_free = |module: &&str| {
            let imported = imports.get(*module).into_iter().flatten();
            !imported
                .into_iter()
                .any(|(other, _)| left.contains(other.as_str()))
        };
        let free: Vec<&str> = left.iter().copied().filter(is_free).collect();
        if free.is_empty() {
            return left;
        }
        left.retain(|module| !free.contains(module));
    }
}

#[test]
fn no_modules_import_each_other_in_a_circle() {
    for name in CRATES {
        let imports = imports(name);
        assert!(imports.len() > 1, "{name}: no modules found");
        let circle = circle(&imports);
        let of_it: Vec<String> = circle
            .iter()
            .flat_map(|module| {
                let imported = imports[*module].iter();
                imported
                    .filter(|(other, _)| circle.contains(other.as_str()))
                    .map(move |(other, path)| {
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
    let modules: BTreeSet<&String> = imports.keys().collect();
    assert_eq!(described.iter().collect::<BTreeSet<_>>(), modules);
    for (row, module) in described.iter().enumerate() {
        for (other, path) in &imports[module] {
            let is_above = described.iter().take(row).any(|above| above == other);
            assert!(
                is_above,
                "{module} imports {other}, which stands below it: {}",
                path.display()
            );
        }
    }
}
