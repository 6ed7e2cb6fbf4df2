//! The totals in docs/verification.md are the sums of the recorded searches and of the marks in the
//! sources. So is the comparison of the explorer with loom.
//!
//! `SPANLOCK_TIDY=write cargo test -p spanlock-testkit --test tidy totals` writes the tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::{project, sources};

/// The headings of the tables.
const SEARCHES: &str = "\
| crate | recorded searches | EXHAUSTED | BOUNDED | of all, run by `--full` only | executions | left out |
|---|---|---|---|---|---|---|
";
const CHANGES: &str = "\
| crate | injected bugs | changes that a comment calls `equivalent` |
|---|---|---|
";

const COSTS: &str = "\
| crate | programs | explorer: executions | seconds | bounded | loom: executions | seconds | bounded |
|---|---|---|---|---|---|---|---|
";
/// What precedes the median in the text, and what follows it.
const MEDIAN: [&str; 2] = [
    "In the median program, the explorer has ",
    " times as many executions as loom:",
];

/// Returns a number with a comma before each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns how many searches a package's record has, how many are whole, how many have a bound, how
/// many run in the full run only, and the number of executions. Last, how many further searches are
/// left out: their records have no executions.
fn recorded(record: &str) -> [u64; 6] {
    let mut sums = [0; 6];
    for line in record.lines().filter(|line| !line.starts_with('#')) {
        let [row, bound, executions, _] = *line.split('\t').collect::<Vec<_>>() else {
            panic!("not a record: {line}");
        };
        let is_whole = bound == "-";
        let is_long = row.ends_with("/long");
        let executions: u64 = executions.parse().expect("a number");
        let of_row = match executions {
            0 => [0, 0, 0, 0, 0, 1],
            _ => [
                1,
                is_whole.into(),
                (!is_whole).into(),
                is_long.into(),
                executions,
                0,
            ],
        };
        for (sum, of_row) in sums.iter_mut().zip(of_row) {
            *sum += of_row;
        }
    }
    sums
}

/// A recorded search: its bound is set, the executions and milliseconds.
type Search = (bool, u64, u64);

/// Returns the searches of each program that has ended under the explorer and under loom.
fn compared(record: &str) -> Vec<[Search; 2]> {
    let mut programs: BTreeMap<&str, [Option<Search>; 2]> = BTreeMap::new();
    for line in record.lines().filter(|line| !line.starts_with('#')) {
        let [row, bound, executions, millis] = *line.split('\t').collect::<Vec<_>>() else {
            panic!("not a record: {line}");
        };
        let row = row.strip_suffix("/long").unwrap_or(row);
        let explorer = row.strip_suffix("/explorer").map(|program| (program, 0));
        let loom = || row.strip_suffix("/loom/weak").map(|program| (program, 1));
        let number = |text: &str| text.parse().unwrap_or(0);
        let search = (bound != "-", number(executions), number(millis));
        if let Some((program, checker)) = explorer.or_else(loom).filter(|_| search.1 > 0) {
            let known = &mut programs.entry(program).or_default()[checker];
            // A long search replaces the shorter one.
            *known = known.filter(|it| it.1 > search.1).or(Some(search));
        }
    }
    let both = programs
        .into_values()
        .filter_map(|[explorer, loom]| Some([explorer?, loom?]));
    both.collect()
}

/// Returns the number of programs, and for each checker the executions, seconds and bounded
/// searches.
fn costs(compared: &[[Search; 2]]) -> [u64; 7] {
    let mut sums = [0; 7];
    sums[0] = compared.len() as u64;
    for checker in 0..2 {
        let its = || compared.iter().map(move |both| both[checker]);
        let at = 1 + 3 * checker;
        sums[at] = its().map(|(_, executions, _)| executions).sum();
        sums[at + 1] = its()
            .map(|(_, _, millis)| millis)
            .sum::<u64>()
            .div_ceil(1_000);
        sums[at + 2] = its().filter(|(is_bounded, _, _)| *is_bounded).count() as u64;
    }
    sums
}

/// Returns how many times as many executions as loom the explorer has in the median program.
fn median(compared: &[[Search; 2]]) -> String {
    let ratio = |[(_, explorer, _), (_, loom, _)]: &[Search; 2]| *explorer as f64 / *loom as f64;
    let mut ratios: Vec<f64> = compared.iter().map(ratio).collect();
    ratios.sort_by(f64::total_cmp);
    format!("{:.1}", ratios[ratios.len() / 2])
}

/// Returns the number of different injected bugs, and of `equivalent` changes, in a package's
/// sources.
fn marked(folder: &Path) -> [u64; 2] {
    let mut files = Vec::new();
    sources(&folder.join("src"), &mut files);
    let (mut bugs, mut equivalent) = (BTreeSet::new(), 0);
    for file in files {
        let text = fs::read_to_string(file).expect("readable");
        for (at, _) in text.match_indices("injected_bug!(") {
            let is_code = !text[..at].lines().last().unwrap_or_default().contains("//");
            let rest = text[at..].split_once('(').expect("there").1.trim_start();
            let name = rest
                .strip_prefix('"')
                .and_then(|rest| rest.split('"').next());
            let is_name = |name: &&str| name.starts_with(|c: char| c.is_ascii_lowercase());
            bugs.extend(name.filter(is_name).filter(|_| is_code).map(str::to_owned));
        }
        let is_mark = |line: &&str| line.trim().starts_with("// equivalent(");
        equivalent += text.lines().filter(is_mark).count() as u64;
    }
    [bugs.len() as u64, equivalent]
}

/// Returns the rows of a table, the last of which has the sums.
fn table<const N: usize>(of: &[(String, [u64; N])]) -> String {
    let row = |name: &str, numbers: [u64; N]| {
        let numbers = numbers.map(grouped);
        format!("| {name} | {} |", numbers.join(" | "))
    };
    let sums = of.iter().fold([0; N], |mut sums, (_, of)| {
        sums.iter_mut().zip(of).for_each(|(sum, of)| *sum += of);
        sums
    });
    let rows = of
        .iter()
        .map(|(name, numbers)| row(&format!("`{name}`"), *numbers));
    rows.chain([row("all", sums)])
        .collect::<Vec<_>>()
        .join("\n")
}

/// Replaces the rows below `head`.
fn replaced(page: &str, head: &str, rows: &str) -> String {
    let (before, rest) = page.split_once(head).expect("the heading of a table");
    let old = rest.lines().take_while(|line| line.starts_with('|'));
    let after: usize = old.map(|line| line.len() + 1).sum();
    format!("{before}{head}{rows}\n{}", &rest[after..])
}

#[test]
fn the_page_has_the_totals_of_the_records() {
    let (mut searches, mut changes) = (Vec::new(), Vec::new());
    let (mut of_both, mut both) = (Vec::new(), Vec::new());
    let mut folders: Vec<_> = fs::read_dir(project())
        .expect("the project")
        .flatten()
        .collect();
    folders.sort_by_key(|folder| folder.file_name());
    for folder in folders {
        let name = folder.file_name().to_string_lossy().into_owned();
        let record = folder.path().join("models/executions.tsv");
        if record.is_file() {
            let record = fs::read_to_string(record).expect("readable");
            searches.push((name.clone(), recorded(&record)));
            let compared = compared(&record);
            of_both.push((name.clone(), costs(&compared)));
            both.extend(compared);
            changes.push((name, marked(&folder.path())));
        }
    }
    assert!(
        searches.len() > 4,
        "only {} packages have records",
        searches.len()
    );
    changes.retain(|(_, marked)| *marked != [0, 0]);
    of_both.retain(|(_, costs)| costs[0] > 0);
    let path = project().join("docs/verification.md");
    let page = fs::read_to_string(&path).expect("readable");
    let new = replaced(&page, SEARCHES, &table(&searches));
    let new = replaced(&new, CHANGES, &table(&changes));
    let new = replaced(&new, COSTS, &table(&of_both));
    let (before, after) = new.split_once(MEDIAN[0]).expect("the text of the median");
    let (_, after) = after.split_once(MEDIAN[1]).expect("the rest of it");
    let new = [before, MEDIAN[0], &median(&both), MEDIAN[1], after].concat();
    if std::env::var_os("SPANLOCK_TIDY").is_some_and(|it| it == "write") {
        crate::replace(&path, &new);
    } else {
        assert!(
            page == new,
            "the totals in docs/verification.md are out of date:\n{new}\n`SPANLOCK_TIDY=write` writes them"
        );
    }
}

#[test]
fn totals_are_sums() {
    let record = "# head\na/b/loom/weak\t-\t7\t1\na/b/loom/weak/long\t3\t1200\t-\n\
                  a/b/explorer/long\t-\t0\t-\n";
    let sums = recorded(record);
    assert_eq!(sums, [2, 1, 1, 1, 1207, 1]);
    let both = [("x".to_owned(), [1, 999]), ("y".to_owned(), [2, 1])];
    assert_eq!(
        table(&both),
        "| `x` | 1 | 999 |\n| `y` | 2 | 1 |\n| all | 3 | 1,000 |"
    );
    let page = replaced("p\n\n# h\n| old |\n| old |\n\nend\n", "# h\n", "| new |");
    assert_eq!(page, "p\n\n# h\n| new |\n\nend\n");
    assert_eq!(
        replaced("# h\n\nend\n", "# h\n", "| new |"),
        "# h\n| new |\n\nend\n"
    );
}

#[test]
fn costs_are_those_of_programs_that_both_checkers_search() {
    let record = "# head\na/b/explorer\t-\t7\t900\na/b/loom/weak\t-\t14\t1\n\
                  a/c/explorer\t0\t5\t10\na/c/explorer/long\t-\t50\t400\na/c/loom/weak/long\t3\t500\t2\n\
                  a/d/explorer\t-\t9\t9\na/e/explorer\t-\t1\t1\na/e/loom/weak/long\t-\t0\t-\n";
    let compared = compared(record);
    assert_eq!(costs(&compared), [2, 57, 2, 0, 514, 1, 1]);
    assert_eq!(median(&compared), "0.5");
}
