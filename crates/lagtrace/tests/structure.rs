//! The structure of the source: modules do not import each other in circles, and crates, modules
//! and files are as `ARCHITECTURE.md` describes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates whose modules are checked.
const CRATES: [&str; 5] = ["core", "lab", "lagtrace", "sources", "trial"];

/// The path of a module in its crate.
type Module = Vec<String>;

/// The imports of each module of a crate, each with a file that contains it. An import is counted
/// between children of the same parent: if a file of `a/b` names `a::c::d`, then `a::b` imports
/// `a::c`.
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

/// Returns the code of a file without its comments and without its tests, which are at its end.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("a source file");
    let text = text.split("#[cfg(test)]\nmod tests {").next();
    let lines = text.unwrap_or_default().lines();
    let code = lines.map(|line| line.split("//").next().unwrap_or_default());
    code.collect::<Vec<_>>().join("\n")
}

/// Returns the paths after `crate::` and `super::` in the code of `module`.
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

/// Adds the paths at the beginning of `text` to `named`, with `base` in front of each, and returns
/// the remaining text. A group such as `{a, b::c}` contains several paths.
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

/// Returns the modules that import each other in a circle. Modules that import none of the others
/// are removed until there are no more of them; those that remain are in a circle, or import one
/// that is.
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
        let imports = imports(name);
        assert!(imports.len() > 1, "{name}: no modules found");
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

/// The types of the report that are made when claims are put into words.
const WORDS: [&str; 3] = ["Evidence", "Finding", "Fix"];
/// The texts of claims and findings.
const TEXTS: [&str; 7] = [
    "because",
    "change",
    "decided_by",
    "overturned_by",
    "summary",
    "text",
    "title",
];
const SEARCHES: [&str; 6] = [
    "contains(",
    "ends_with(",
    "find(",
    "matches(",
    "split",
    "starts_with(",
];

/// Returns the texts that are searched in some code.
fn searched(code: &str) -> Vec<String> {
    let code: String = code.split_whitespace().collect();
    let all = TEXTS.iter().flat_map(|text| {
        let searches = SEARCHES.iter();
        searches.map(move |search| format!(".{text}.{search}"))
    });
    all.filter(|search| code.contains(search)).collect()
}

#[test]
fn no_step_finds_the_work_of_another_by_its_words() {
    let sample = "piece.kind == kind && piece\n    .text\n    .contains(&written)";
    assert_eq!(searched(sample), [".text.contains("]);
    let source = root().join("crates/core/src");
    let parts = ["cause", "conclude"].map(|part| source.join(part));
    let mut checked: Vec<PathBuf> = parts.iter().flat_map(|part| files(part)).collect();
    checked.extend(parts.map(|part| part.with_extension("rs")));
    // The search for a cause reads the registry, and `word` puts claims into words.
    let is_other = |path: &Path| {
        ["search.rs", "word.rs"]
            .iter()
            .any(|end| path.ends_with(end))
    };
    checked.retain(|path| !is_test(path) && !is_other(path));
    for path in &checked {
        let (code, module) = (code(path), module(&source, path).expect("a module"));
        let mut found = searched(&code);
        // What is made of the findings, such as the layers, has to name them.
        let words = WORDS
            .iter()
            .filter(|word| **word != "Finding" || module[0] == "cause");
        let named = named(&code, &module);
        let named = words.filter(|word| named.iter().any(|path| path[..] == ["report", word]));
        found.extend(named.map(|word| (*word).to_owned()));
        assert_eq!(found, [""; 0], "{}", path.display());
    }
}

fn document(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect("a document of the root")
}

/// Returns the rows of the table below a heading of `ARCHITECTURE.md`, each as a list of cells.
fn table(heading: &str) -> Vec<Vec<String>> {
    let text = document("ARCHITECTURE.md");
    let section = text.split(&format!("\n## {heading}\n")).nth(1);
    let section = section.and_then(|rest| rest.split("\n## ").next());
    let lines = section.expect("the section").lines();
    let rows = lines.filter(|line| line.starts_with("| `"));
    let cells = |row: &str| row.trim_matches('|').split('|').map(String::from).collect();
    rows.map(cells).collect()
}

/// Returns the bullets below a heading of `ARCHITECTURE.md`, each as what stands before the first
/// colon and what follows it.
fn bullets(heading: &str) -> Vec<[String; 2]> {
    let text = document("ARCHITECTURE.md");
    let section = text.split(&format!("\n## {heading}\n")).nth(1);
    let section = section.and_then(|rest| rest.split("\n## ").next());
    let lines = section.expect("the section").lines();
    let bullets = lines.filter_map(|line| line.strip_prefix("- ")?.split_once(": "));
    bullets
        .map(|(name, text)| [name.into(), text.into()])
        .collect()
}

/// Returns the words between backticks in a text.
fn quoted(text: &str) -> BTreeSet<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// Returns the modules of the core in the order of their list.
fn described() -> Vec<String> {
    let rows = bullets("The core, module by module");
    rows.iter().flat_map(|row| quoted(&row[0])).collect()
}

/// Returns the code of all files below a folder, without tests.
fn source(folder: &Path) -> String {
    let files = files(folder);
    let product = files.iter().filter(|path| !is_test(path));
    product.map(|path| code(path) + "\n").collect()
}

fn is_test(path: &Path) -> bool {
    path.iter()
        .any(|part| part == "tests" || part == "tests.rs")
}

fn source_of(name: &str) -> String {
    source(&root().join("crates").join(name).join("src"))
}

/// Returns the letters, digits and underscores at the beginning of a text.
fn word(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
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

/// Directives without a row in the table that the tests of other rows depend on.
const DEPENDED_ON: [&str; 3] = ["limit_conn_dry_run", "limit_req_dry_run", "sendfile"];

#[test]
fn the_directives_that_are_resolved_are_those_that_explain_a_finding() {
    // The readers for Apache and haproxy have no list of directives, so their directives are left
    // out here, and so are options of a command line and environment variables.
    let explaining = lagtrace_core::cause::directives().map(str::to_owned);
    let explaining = explaining.filter(|directive| {
        let is_apaches = directive.starts_with(|first: char| first.is_ascii_uppercase());
        !is_apaches
            && !["option ", "timeout ", "server ", "-"]
                .iter()
                .any(|of| directive.starts_with(of))
    });
    let needed = explaining.chain(DEPENDED_ON.map(str::to_owned));
    let resolved: BTreeSet<String> = lagtrace_sources::config::nginx::directives().collect();
    assert_eq!(needed.collect::<BTreeSet<_>>(), resolved);
}

#[test]
fn modules_have_what_architecture_md_says_of_them() {
    for row in bullets("The core, module by module") {
        let module = quoted(&row[0]).pop_first().expect("a module");
        let folder = root().join("crates/core/src").join(&module);
        let mut text = code(&folder.with_extension("rs"));
        if folder.is_dir() {
            text += &source(&folder);
        }
        let is_name = |word: &String| word.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        for name in quoted(&row[1]).into_iter().filter(is_name) {
            assert!(text.contains(&name), "{module} has no {name}");
        }
    }
}

/// Returns the crates of this workspace that a crate depends on, without those only for tests.
fn dependencies(name: &str) -> BTreeSet<String> {
    let manifest = document(&format!("crates/{name}/Cargo.toml"));
    let section = manifest.split("\n[dependencies]\n").nth(1);
    let section = section.and_then(|rest| rest.split("\n[").next());
    let lines = section.expect("dependencies").lines();
    let own = lines.filter_map(|line| line.strip_prefix("lagtrace-"));
    own.map(word).collect()
}

/// Returns the modules of another crate that a crate's code names: `core::report`, for example.
fn modules_used(code: &str, used: &str) -> BTreeSet<String> {
    let prefix = format!("lagtrace_{used}::");
    let paths = code.split(&prefix).skip(1);
    paths
        .map(|path| format!("{used}::{}", word(path)))
        .collect()
}

#[test]
fn crates_use_of_each_other_what_architecture_md_says() {
    let mut described = BTreeSet::new();
    for row in table("The crates, cut by permission") {
        let folder = quoted(&row[0]).pop_first().expect("a crate");
        let name = folder.trim_start_matches("crates/");
        let uses = quoted(&row[2]);
        let crates: BTreeSet<String> = uses.iter().map(|used| word(used)).collect();
        assert_eq!(dependencies(name), crates, "dependencies of {name}");
        let code = source_of(name);
        // If the table names only the crate, all its modules may be used.
        for used in crates.difference(&uses) {
            let modules = modules_used(&code, used);
            let allowed = uses.iter().filter(|other| word(other) == *used);
            let allowed: BTreeSet<String> = allowed.cloned().collect();
            assert_eq!(modules, allowed, "used by {name}");
        }
        described.insert(root().join(&folder));
    }
    let folders = fs::read_dir(root().join("crates")).expect("the crates");
    let folders: BTreeSet<_> = folders
        .map(|entry| entry.expect("a crate").path())
        .collect();
    assert_eq!(described, folders);
}

#[test]
fn the_core_has_no_way_to_the_outside() {
    /// The modules of the standard library that have no effect outside the program and observe
    /// nothing outside.
    const PURE: [&str; 10] = [
        "borrow",
        "cmp",
        "collections",
        "fmt",
        "iter",
        "mem",
        "slice",
        "string",
        "sync",
        "vec",
    ];
    let code = source_of("core");
    for module in code.split("std::").skip(1).map(word) {
        assert!(PURE.contains(&module.as_str()), "core uses std::{module}");
    }
    assert!(!code.contains("println!("), "core prints");
}

#[test]
fn unsafe_code_is_only_in_sources_and_lab() {
    for name in ["core", "lagtrace", "trial"] {
        let code = source_of(name).replace("#![forbid(unsafe_code", "");
        for sign in ["(unsafe_code", "unsafe {", "unsafe fn", "unsafe impl"] {
            assert!(!code.contains(sign), "{name} has {sign}");
        }
    }
}

/// Returns all files and folders of the tree below a folder.
/// Functions that open, create or inspect a file by its path.
const BY_PATH: [&str; 14] = [
    "File::open",
    "File::create",
    "File::options",
    "OpenOptions",
    "fs::read",
    "fs::write",
    "fs::rename",
    "fs::remove",
    "fs::create",
    "fs::metadata",
    "canonicalize",
    ".exists()",
    ".is_file()",
    "pem_file",
];

/// Files that open paths of their own, not of the command line, and the lab, whose user is a
/// developer.
const OWN_PATHS: [&str; 4] = ["view/place.rs", "view/serve.rs", "lab.rs", "lab"];

#[test]
fn files_that_the_user_names_are_opened_in_one_module() {
    let command = root().join("crates/lagtrace/src");
    let sources = root().join("crates/sources/src");
    let own = OWN_PATHS.map(|path| command.join(path));
    let mut checked = files(&command);
    checked.retain(|path| !own.iter().any(|own| path.starts_with(own)));
    for part in ["capture", "load", "tls"] {
        checked.extend(files(&sources.join(part)));
    }
    checked.extend(["origin.rs", "tls.rs"].map(|file| sources.join(file)));
    for path in checked.iter().filter(|path| !is_test(path)) {
        let code = code(path);
        let found = BY_PATH.iter().find(|call| code.contains(**call));
        assert_eq!(found, None, "{}: use sources::files", path.display());
    }
}

fn paths(folder: &Path) -> Vec<PathBuf> {
    const NOT_OURS: [&str; 2] = ["target", ".git"];
    let entries = fs::read_dir(folder).expect("a folder of the tree");
    let entries = entries.map(|entry| entry.expect("an entry").path());
    let ours = entries.filter(|path| !NOT_OURS.iter().any(|name| path.ends_with(name)));
    let nested = |path: PathBuf| {
        let inner = if path.is_dir() {
            paths(&path)
        } else {
            Vec::new()
        };
        inner.into_iter().chain([path])
    };
    ours.flat_map(nested).collect()
}

/// Returns true if a word of a document is the path of a file or folder of the tree.
fn is_path(word: &str) -> bool {
    /// Files that exist only in the examples of `CONTRIBUTING.md`.
    const EXAMPLES: [&str; 3] = ["tls-slow-client.md", "tls_slow_client.rs", "pressure.rs"];
    let is_file = [".rs", ".md", ".toml"]
        .iter()
        .any(|end| word.ends_with(end));
    let is_pattern = word.contains([' ', '\n', '<', '*', '{', '$']) || word.contains("NAME");
    let is_outside = word.starts_with('/') || word == "mod.rs";
    let is_example = EXAMPLES.iter().any(|name| word.ends_with(name));
    (is_file || word.contains('/')) && !is_pattern && !is_outside && !is_example
}

#[test]
fn files_that_the_documents_name_exist() {
    let paths = paths(&root());
    let exists = |name: &str| {
        let name = name.trim_start_matches("./");
        paths
            .iter()
            .any(|path| path.ends_with(name) || path.with_extension("").ends_with(name))
    };
    for title in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = document(title);
        for name in quoted(&text).iter().filter(|word| is_path(word)) {
            assert!(exists(name), "{title} names {name}");
        }
    }
}

/// Maximum number of fields of a struct: more of them are grouped into structs of their own.
const MOST_FIELDS: usize = 15;

/// The structs with more fields. The first is a row of the registry, with a field for each column. The
/// others are JSON documents (reports, observations, labels of recordings), whose form must not
/// change with the code. The last is `struct tcp_info` of the kernel.
const WIDE: [&str; 16] = [
    "Cause",
    "ConnectionRecord",
    "ConnectionSide",
    "Finding",
    "Hop",
    "Label",
    "LaneCounters",
    "LiveOptions",
    "LiveSocket",
    "LoadRun",
    "Probe",
    "ProbeSample",
    "Report",
    "RequestSpan",
    "TcpSample",
    "TcpInfo",
];

/// Removes the visibility from the beginning of an item.
fn without_visibility(line: &str) -> &str {
    match line.strip_prefix("pub") {
        Some(rest) => rest
            .split_once(") ")
            .filter(|_| rest.starts_with('('))
            .map_or(rest.trim_start(), |(_, item)| item),
        None => line,
    }
}

/// Returns the structs of a file that rustfmt has formatted, with the number of their fields.
fn structs(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut structs = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let item = line.trim_start();
        let indent = line.len() - item.len();
        let Some(name) = without_visibility(item).strip_prefix("struct ") else {
            continue;
        };
        let inner = " ".repeat(indent + 4);
        let is_inside = |line: &&&str| line.is_empty() || line.starts_with(&inner);
        let is_field = |line: &&&str| {
            let field = without_visibility(&line[inner.len().min(line.len())..]);
            let name = word(field);
            !name.is_empty() && field[name.len()..].starts_with(": ")
        };
        if line.ends_with('{') {
            let body = lines[number + 1..].iter().take_while(is_inside);
            structs.push((word(name), body.filter(is_field).count()));
        }
    }
    structs
}

#[test]
fn no_struct_has_more_fields_than_a_reader_keeps_in_mind() {
    let sample = "pub(crate) struct Few<'a> {\n    /// A: b.\n    pub(super) one: u8,\n    two: &'a str,\n}\n";
    assert_eq!(structs(sample), [("Few".to_owned(), 2)]);
    let files = files(&root().join("crates"));
    let all = files.iter().flat_map(|path| {
        let text = fs::read_to_string(path).expect("a source file");
        structs(&text)
    });
    let wide: BTreeSet<String> = all
        .filter(|&(_, fields)| fields > MOST_FIELDS)
        .map(|(name, _)| name)
        .collect();
    let documents: BTreeSet<String> = WIDE.map(str::to_owned).into();
    assert_eq!(wide, documents, "group the fields that are read together");
}

/// Names that several modules of a crate have by design: each cause has a `Rule`, and each command its
/// `Options`.
const BY_DESIGN: [&str; 2] = ["Rule", "Options"];

/// Names that several types of a crate still have, by crate; with their number if there are more than
/// two. The list only becomes shorter: a name that stands for one type is removed from it.
const SHARED: [(&str, &str); 4] = [
    (
        "core",
        "Datagram Delays Event:3 Fields Found Handshake Holder Intervals LiveSocket Messages:3 \
         Opening Origin Outcome Packet Protocol Recovery SetupOutcome SocketOwner Stage Step:4 \
         Transport Upstream Vantage",
    ),
    ("lab", "Answer:3 Head Hold Process Program Requests Side"),
    (
        "lagtrace",
        "Body Key Kind:3 Length Live Place Plan Session Target:3 Watching",
    ),
    (
        "sources",
        "Answer Answered:3 Ask Attempt Calls Channel Client Engine Found Frames:3 Handshake Key \
         Kind Known Manner Named Pace Packets Place Prepared Programs Progress Queued Reader \
         Refusal Reply:4 Request:4 Sampler Scope Seen Selection Server Setting SocketOptions \
         Watch Worker:3 Written",
    ),
];

/// Returns the names of the types of a module that other modules can see.
fn visible_types(code: &str) -> impl Iterator<Item = String> {
    let items = code.lines().filter(|line| line.starts_with("pub"));
    items.filter_map(|line| {
        let (keyword, name) = without_visibility(line).split_once(' ')?;
        let is_type = ["struct", "enum", "trait", "type"].contains(&keyword);
        is_type.then(|| word(name))
    })
}

/// Returns the names that several visible types of a crate have, with their number if there are more
/// than two.
fn shared_names(name: &str) -> Vec<String> {
    let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
    let files = files(&root().join("crates").join(name).join("src"));
    for path in files.iter().filter(|path| !is_test(path)) {
        for name in visible_types(&code(path)) {
            *numbers.entry(name).or_default() += 1;
        }
    }
    let numbers = numbers.into_iter();
    let shared = numbers.filter_map(|(name, number)| match number {
        1 => None,
        2 => Some(name),
        more => Some(format!("{name}:{more}")),
    });
    shared
        .filter(|name| !BY_DESIGN.contains(&word(name).as_str()))
        .collect()
}

#[test]
fn a_name_stands_for_one_type_of_a_crate() {
    let sample =
        "pub(super) enum One {\npub struct Two<'a>(u8);\nstruct Three;\n    pub type Four = u8;";
    assert_eq!(visible_types(sample).collect::<Vec<_>>(), ["One", "Two"]);
    for name in CRATES {
        let known = SHARED.iter().find(|(of, _)| *of == name);
        let known = known.map_or("", |(_, names)| names).split_whitespace();
        assert_eq!(
            shared_names(name),
            known.collect::<Vec<_>>(),
            "names of several types in {name}"
        );
    }
}
