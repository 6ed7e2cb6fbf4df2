//! `compare redraw` as a command: the report of a result file. All reports have the same frame.

use std::fs;
use std::path::Path;

use crate::common::scene::*;

/// Redraws a result file and returns the page.
fn redrawn(scene: &Scene, json: &Path) -> String {
    let output = scene.compare(&["redraw", json.to_str().unwrap(), "--report", "again.html"]);
    assert!(output.status.success(), "{}: {output:?}", json.display());
    fs::read_to_string(scene.path("again.html")).unwrap()
}

/// The project's recorded results.
fn recorded(name: &str) -> std::path::PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/figures");
    folder.join(format!("{name}.json"))
}

#[test]
fn every_report_begins_with_its_answer_and_ends_with_targets_and_losses() {
    let scene = Scene::new(0);
    for (name, ends) in [
        ("compare", &["Targets", "Losses"][..]),
        ("contention", &["Losses"]),
        ("failures", &["Not clean"]),
        ("file-core", &["Targets"]),
        ("journal", &["Targets", "Losses"]),
        ("micro", &["Targets", "Losses"]),
        ("node-log", &["Targets"]),
        ("objects", &["Targets"]),
        ("papers", &[]),
        ("recovery", &["Targets"]),
    ] {
        let page = redrawn(&scene, &recorded(name));
        let order = [
            "name=\"viewport\"",
            "class=\"answer\"",
            "<b>",
            "<figure>",
            "<table",
        ];
        let ends: Vec<_> = ends.iter().map(|it| format!("<h2>{it}</h2>")).collect();
        let run = ["<h2>The run</h2>"].into_iter();
        let order = order
            .into_iter()
            .chain(run)
            .chain(ends.iter().map(|it| &**it));
        let mut last = 0;
        for wanted in order {
            let at = page
                .find(wanted)
                .unwrap_or_else(|| panic!("{name}: no {wanted}"));
            assert!(at > last, "{name}: {wanted} is too early");
            last = at;
        }
        for outside in [
            "<script", "<link", "<img", "src=", "href=", "url(", "@import",
        ] {
            assert!(!page.contains(outside), "{name}: {outside}");
        }
    }
}

#[test]
fn red_is_the_figure_that_is_bad() {
    let scene = Scene::new(0);
    let page = redrawn(&scene, &recorded("failures"));
    let (_, table) = page.split_once("<h2>Contestants</h2>").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    assert!(table.contains("<td class=\"bad\">269 (77)</td>"), "{table}");
    let red = table.split("class=\"bad\">").skip(1);
    let red: Vec<_> = red.map(|it| it.split('<').next().unwrap()).collect();
    assert!(
        !red.is_empty() && red.iter().all(|it| !it.starts_with('0')),
        "{red:?}"
    );
}

#[test]
fn a_redrawn_report_is_that_of_the_run() {
    let scene = Scene::new(0);
    for run in [
        &[
            "contention",
            "--filter",
            "section-3us/,threads-2",
            "--locks",
            "srl-tree,std",
        ][..],
        // A result file does not say why rows are missing: parking_lot would lack some.
        &["--micro", "--locks", "srl-tree,interval-tree"],
        &["file-core", "--threads", "1", "--locks", "srl-tree"],
    ] {
        let output = ["--seconds", "0.01", "--json", "rows.json"];
        let output = scene.compare(&[run, &output].concat());
        assert!(output.status.success(), "{run:?}: {output:?}");
        let page = fs::read_to_string(scene.path("report.html")).unwrap();
        assert!(page == redrawn(&scene, &scene.path("rows.json")), "{run:?}");
    }
}

#[test]
fn what_is_no_result_file_is_rejected() {
    let scene = Scene::new(0);
    for (text, wanted) in [
        ("", "not a result file"),
        ("[1]", "not a result file"),
        ("{\"format\": 1}", "not a result file"),
    ] {
        fs::write(scene.path("x.json"), text).unwrap();
        scene.fails(&["redraw", "x.json"], &["x.json", wanted]);
    }
    let good = fs::read_to_string(recorded("recovery")).unwrap();
    for (from, to, wanted) in [
        (
            "\"format\": 1",
            "\"format\": 2",
            "a result file of format 2, and this version reads format 1",
        ),
        (
            "\"name\": \"recovery\"",
            "\"name\": \"x\"",
            "there is no comparison `x`",
        ),
        (
            "compare recovery --files",
            "compare recovery --filez",
            "is none of this version",
        ),
        ("\"threads\"", "\"threadz\"", "missing field `threads`"),
    ] {
        assert!(good.contains(from), "{from}");
        fs::write(scene.path("x.json"), good.replace(from, to)).unwrap();
        scene.fails(&["redraw", "x.json"], &["x.json", wanted]);
    }
    scene.fails(
        &["redraw", "nowhere.json"],
        &["nowhere.json", "No such file"],
    );
    fs::write(scene.path("x.json"), good).unwrap();
    scene.fails(
        &["redraw", "x.json", "--report", "./x.json"],
        &["--report ./x.json"],
    );
}
