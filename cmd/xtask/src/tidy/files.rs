//! Rules about single files: how long they are and what they may be called.

use std::path::Path;

/// A file of more lines than this, tests left out, is two files.
const MAX_LINES: usize = 800;

/// Names that say nothing, and so end up holding everything.
const FORBIDDEN: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];

/// All broken rules of the Rust file `path` (relative to the tree) with the content `text`.
pub(super) fn check(path: &Path, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let shown = path.display();
    if path.file_name().is_some_and(|name| name == "mod.rs") {
        problems.push(format!("{shown}: a module is foo.rs beside foo/, not mod.rs"));
    }
    for part in path.with_extension("").iter().filter_map(|part| part.to_str()) {
        if FORBIDDEN.contains(&part) {
            problems.push(format!("{shown}: `{part}` says nothing; name the file after what it holds"));
        }
    }
    let lines = production_lines(path, text);
    if lines > MAX_LINES {
        problems.push(format!("{shown}: {lines} lines without tests, the limit is {MAX_LINES}"));
    }
    problems
}

/// The lines of `text` up to its inline test module; none for files that hold only tests.
fn production_lines(path: &Path, text: &str) -> usize {
    let is_test =
        path.iter().any(|part| part == "tests") || path.file_name().is_some_and(|name| name == "tests.rs");
    if is_test {
        return 0;
    }
    let lines: Vec<&str> = text.lines().collect();
    let inline = lines.windows(2).position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod "));
    match inline {
        // `mod tests;` is one line; an inline module goes on to the end of the file.
        Some(at) if lines[at + 1].ends_with('{') => at,
        _ => lines.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> usize {
        check(Path::new(path), text).len()
    }

    #[test]
    fn long_files_fail_but_tests_do_not_count() {
        let long = "x\n".repeat(801);
        assert_eq!(problems("pkg/a/src/b.rs", &long), 1);
        assert_eq!(problems("pkg/a/src/b.rs", &"x\n".repeat(800)), 0);
        assert_eq!(problems("pkg/a/src/b.rs", &format!("x\n#[cfg(test)]\nmod tests {{\n{long}}}\n")), 0);
        assert_eq!(problems("pkg/a/src/b.rs", &format!("#[cfg(test)]\nmod tests;\n{long}")), 1);
        assert_eq!(problems("pkg/a/src/b/tests.rs", &long), 0);
        assert_eq!(problems("pkg/a/tests/it/main.rs", &long), 0);
    }

    #[test]
    fn empty_names_are_refused_as_files_and_folders() {
        assert_eq!(problems("pkg/a/src/util.rs", ""), 1);
        assert_eq!(problems("pkg/common/src/lib.rs", ""), 1);
        assert_eq!(problems("pkg/a/src/utility.rs", ""), 0);
        assert_eq!(problems("pkg/a/src/b/mod.rs", ""), 1);
    }
}
