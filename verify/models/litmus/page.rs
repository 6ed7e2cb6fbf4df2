//! `docs/checkers.md`: the checkers' known errors, and their consequences.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::{BLIND_SPOTS, BlindSpot, Deviation, Model, models};
use spanlock_verify::Mode;

const MODES: [Mode; 2] = [Mode::Explorer, Mode::Weak];

const HEAD: &str = "\
# What the checkers see, and what they do not

The check `litmus/the-page-says-what-the-models-say` generates this page from the models in \
`verify/models/litmus`, and fails if the two differ.

A checker is a program, so it can be wrong. Therefore our explorer (mode `explorer`) and loom (mode \
`weak`) run litmus tests: small programs whose outcomes are known. The tests are the rows `litmus/…` \
of `cargo verify`.

Each program states the outcomes that C++20, and so Rust, allows. `axioms.rs` derives the allowed \
outcomes a second time from the axioms of the standard, and a check compares the two. A row \
passes only if the mode shows exactly the allowed outcomes, or deviates from them exactly as \
listed below. If it deviates, the row says `BLIND SPOT`, and its JSON lists the outcomes that the \
mode `misses` or `adds`. If a new version of a checker misses more outcomes, or fewer, the row \
fails.

If a mode misses an outcome, it may miss an error in our code. If a mode adds an outcome, it hides no \
error, but it may fail a correct program. It may also make an ordering seem needed that is not; \
so loom judges an ordering only in programs that the explorer does not search.
";

const TABLE: &str = "
## Models

All words are 0 at first, and `T0` is the main thread. The column *outcome* has a `_` for each \
value that a thread reads; the values after `end` are read when all threads have ended. The \
column *allowed* lists the allowed outcomes, with one character for each `_`. In the last two \
columns, an empty cell means that the mode shows exactly the allowed outcomes, and `–` that the \
model does not run in this mode, because it uses a primitive of loom itself. A *fault plan* states \
faults that happen in every execution that reaches them.

| model | program | outcome | allowed | why | `explorer` | `weak` |
|---|---|---|---|---|---|---|
";

/// Returns the whole page.
fn text() -> String {
    let models = models();
    let mut text = HEAD.to_owned();
    let (mut rows, mut blind) = (0, 0);
    for model in &models {
        // The explorer knows only the facade.
        rows += MODES.len() - usize::from(model.is_bare);
        blind += model.litmus.deviations.len();
    }
    let _ = writeln!(
        text,
        "\n{} models, {rows} rows: {} agree, {blind} are known blind spots, of the following kinds.",
        models.len(),
        rows - blind,
    );
    text.push_str(
        "\n## Blind spots\n\n| | deviation | consequence for our locks | shown by |\n|---|---|---|---|\n",
    );
    for spot in BLIND_SPOTS {
        let BlindSpot {
            name,
            what,
            consequence,
        } = spot;
        let shown = shown_by(spot, &models);
        let _ = writeln!(text, "| {name} | {what} | {consequence} | {shown} |");
    }
    text.push_str(TABLE);
    for model in &models {
        text.push_str(&row(model));
    }
    text
}

/// Returns the models that show a blind spot, each with the modes in which it does.
fn shown_by(spot: &BlindSpot, models: &[Model]) -> String {
    let mut shown = Vec::new();
    for model in models {
        let has = |deviation: &&Deviation| deviation.spot == spot;
        let modes = model.litmus.deviations.iter().filter(has);
        let modes: Vec<_> = modes.map(|deviation| deviation.mode.name()).collect();
        if !modes.is_empty() {
            shown.push(format!("`{}` ({})", model.litmus.name, modes.join(", ")));
        }
    }
    shown.join(", ")
}

fn row(model: &Model) -> String {
    let litmus = &model.litmus;
    let program = model.text.replace('\n', "<br>");
    let deviates = MODES.map(|mode| {
        let known = litmus.deviations.iter().filter(|known| known.mode == mode);
        if model.is_bare && mode == Mode::Explorer {
            return "–".to_owned();
        }
        let known = known.map(|known| match known.adds {
            "" => format!("misses {}", known.misses),
            adds => format!("adds {adds}"),
        });
        known.collect::<Vec<_>>().join("<br>")
    });
    format!(
        "| `{}`: {} | {program} | `{}` | {} | {} | {} |\n",
        litmus.name,
        litmus.claim,
        model.pattern,
        litmus.allowed,
        litmus.reason,
        deviates.join(" | ")
    )
}

/// Compares `docs/checkers.md` with the models. If they differ, rewrites the page and fails.
pub(super) fn check() {
    // Cargo runs tests in the package's folder. A published package has no `docs` folder beside it.
    let path = Path::new("../docs/checkers.md");
    let text = text();
    let Ok(there) = fs::read_to_string(path) else {
        return;
    };
    if there != text {
        fs::write(path, text).expect("can write");
        panic!("docs/checkers.md differed from the models and was rewritten: review and commit it");
    }
}
