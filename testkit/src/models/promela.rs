//! Checks that the functions which a Promela model mirrors still exist.

use std::fs;
use std::path::Path;

/// Checks the header comment of `file`, a Promela model in the folder of the running package. The
/// header names the functions that the model mirrors, each with its source file relative to the
/// workspace. Each function must exist in its file. `bugs` must list exactly the macros that the
/// model tests but does not define, and the header must describe each of them.
///
/// # Panics
/// Panics if a function is missing, if the header names fewer than eight functions, or if `bugs`
/// does not match the model's macros.
pub fn check(file: &str, bugs: &[&str]) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let mut mirrored = 0;
    let rows = text.lines().filter_map(|line| line.strip_prefix(" * | "));
    let cells = rows.filter_map(|row| row.trim_end_matches(" |").split(" | ").nth(1));
    for place in cells.flat_map(|cell| cell.split("; ")) {
        let Some((source, functions)) = place.split_once(": ") else {
            continue;
        };
        let code = fs::read_to_string(Path::new("..").join(source));
        let code = code.unwrap_or_else(|error| panic!("{file}: {source}: {error}"));
        for function in functions.split(", ") {
            let heads = [format!("fn {function}("), format!("fn {function}<")];
            let is_there = heads.iter().any(|head| code.contains(head));
            assert!(is_there, "{file}: {source} has no function `{function}`");
            mirrored += 1;
        }
    }
    assert!(
        mirrored >= 8,
        "{file}: the header names only {mirrored} functions"
    );
    for bug in bugs {
        let is_told = text.contains(&format!(" *   {bug} "));
        let is_used = text.contains(&format!("def {bug}\n"));
        let is_used = is_used || text.contains(&format!("defined({bug})"));
        assert!(
            is_told && is_used,
            "{file}: `{bug}` is not described or not used"
        );
    }
    for name in switches(&text) {
        assert!(
            bugs.contains(&name),
            "{file}: the program does not list the bug `{name}`"
        );
    }
}

/// Returns the macros that a model tests with `#ifdef`, `#ifndef` or `defined(…)`, without those
/// that it defines itself.
fn switches(text: &str) -> impl Iterator<Item = &str> {
    let tests = ["#ifdef ", "#ifndef ", "defined("];
    let tested = tests.into_iter().flat_map(|it| text.split(it).skip(1));
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let names = tested.filter_map(move |rest| rest.split(|c: char| !is_part(c)).next());
    names.filter(|name| !text.contains(&format!("#define {name} ")))
}

#[cfg(test)]
mod tests {
    use super::switches;

    #[test]
    fn every_kind_of_condition_is_seen() {
        let model = "\
#ifndef N
#define N 3
#endif
#ifdef ONE
#endif
#ifndef TWO
#endif
#if !defined(THREE) && N > 2
#endif
";
        let found: Vec<_> = switches(model).collect();
        assert_eq!(found, ["ONE", "TWO", "THREE"]);
    }
}
