//! The Promela twins: they hold, each seeded defect is found, and what they say they mirror is there.

use std::fs;
use std::path::Path;

use spanlock_verify::command::spin::{check, version};
use spanlock_verify::models::twins::TWINS;
use spanlock_verify::row::FAILURE;

/// Whether Spin is there. In CI it has to be.
fn is_installed() -> bool {
    let there = version().is_some();
    assert!(
        there || std::env::var_os("CI").is_none(),
        "CI is set, and there is no Spin"
    );
    if !there {
        eprintln!("left out: Spin is not installed");
    }
    there
}

#[test]
fn twins_hold_and_find_every_seeded_defect() {
    if !is_installed() {
        return;
    }
    for twin in TWINS {
        // Two threads: `cargo verify` searches more.
        let ended = check(twin, &["N=2"], false, None).expect("Spin runs");
        let found = ended
            .found()
            .unwrap_or_else(|| panic!("{}: {}", twin.file, ended.stderr));
        assert!(found.executions > 1_000, "{}: {found:?}", twin.file);
        for defect in twin.defects {
            let ended = check(twin, &[defect], true, None).expect("Spin runs");
            let told = format!("{} {defect}: {}", twin.file, ended.stderr);
            assert!(ended.found().is_none(), "{told}");
            // An error of the model, not of Spin, and the way there.
            let failure = [": acceptance cycle", ": assertion violated"];
            let failure = failure.map(|what| told.contains(what));
            assert!(failure.contains(&true) && told.contains(FAILURE), "{told}");
            assert!(told.contains("proc  0"), "{told}");
        }
    }
}

/// Each defect stands in the source, and each that stands there is tried.
#[test]
fn defects_are_those_of_the_sources() {
    for (twin, text) in sources() {
        for defect in twin.defects {
            assert!(text.contains(&format!(" *   {defect} ")), "{defect}");
            let switches = text.matches(&format!("def {defect}\n")).count()
                + text.matches(&format!("defined({defect})")).count();
            assert!(switches > 0, "{}: {defect}", twin.file);
        }
        for switch in text.split("#ifdef ").skip(1) {
            let name = switch.split_whitespace().next().expect("a name");
            assert!(twin.defects.contains(&name), "{}: {name}", twin.file);
        }
    }
}

/// The functions that a twin says it mirrors are in the files where it says they are.
#[test]
fn what_is_mirrored_is_there() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let project = project.expect("the project");
    for (twin, text) in sources() {
        let mut mirrored = 0;
        let cells = text
            .lines()
            .filter_map(|line| line.strip_prefix(" * | ")?.split(" | ").nth(1));
        for place in cells.flat_map(|cell| cell.trim_end_matches(" |").split("; ")) {
            let Some((file, functions)) = place.split_once(": ") else {
                continue;
            };
            let code = fs::read_to_string(project.join(file));
            let code = code.unwrap_or_else(|error| panic!("{}: {file}: {error}", twin.file));
            for function in functions.split(", ") {
                let there = [format!("fn {function}("), format!("fn {function}<")];
                let there = there.iter().any(|head| code.contains(head));
                assert!(there, "{}: {file} has no {function}", twin.file);
                mirrored += 1;
            }
        }
        assert!(mirrored >= 8, "{}: {mirrored}", twin.file);
    }
}

fn sources() -> impl Iterator<Item = (&'static spanlock_verify::models::twins::Twin, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("promela");
    TWINS.iter().map(move |twin| {
        let text = fs::read_to_string(folder.join(twin.file));
        (twin, text.expect("readable"))
    })
}
