//! One run of the throughput model: a case of the file core, at one *point* of the parameters.

use spanlock_cores::Program;

use crate::file::OnFile;
use crate::{cells, locks};

/// Nanoseconds that do not count, and that do. The latter are more than where only transfers count:
/// the cores that wait for a whole-file lock finish few operations.
const TIMES: (u64, u64) = (400_000, 600_000);

/// Runs a case at a point: the nanoseconds that it takes to copy a page, the times of transfers and
/// of the system's steps in percent of the modelled machine's, and the seed. Returns how many
/// operations began, and in how many nanoseconds.
///
/// # Errors
/// There is no such case or lock, the point has other numbers, or the model has no parameters for
/// so many cores.
pub(crate) fn run(case: &str, lock: &str, cores: &str, point: &[&str]) -> Result<String, String> {
    let writes = match case {
        "file-overwrite" => true,
        "file-read" => false,
        _ => return Err(format!("no case of the model {case}")),
    };
    locks::check(lock)?;
    let cores = cells::number(cores)?;
    let program = Program::new(cores).map_err(|error| error.to_string())?;
    let point: Option<Vec<u32>> = point.iter().map(|it| it.parse().ok()).collect();
    let Some(&[page_ns, transfers, system, seed]) = point.as_deref() else {
        return Err(
            "expected a page's time, the percentages of transfers and of the system, and a seed"
                .to_owned(),
        );
    };
    let program = program
        .time(TIMES.0, TIMES.1)
        .transfers(transfers)
        .system(system)
        .seed(u64::from(seed));
    let on_file = OnFile {
        writes,
        cores,
        program,
        page_ns,
    };
    let outcome = locks::with(lock, on_file);
    Ok(format!("model\t{}\t{}", outcome.operations, TIMES.1))
}
