//! What is checked before anything is measured.

use anyhow::{Context, Result, ensure};

use super::plan::Plan;
use super::systems::OF_NODE_LOG;
use crate::journal::devices::{DIRECT, Device};
use crate::node_log::work::DWOM_DIRECT;
use crate::temporary::{Choice, Place};

/// Bytes on the disk that the measurements of papers take at a time.
const ROOM: [(&[&str], u64); 3] = [
    (&OF_NODE_LOG, 2 << 30),
    (&["JBD"], 1 << 30),
    (&["OBJ"], 3 << 30),
];

/// Checks that there is room, and that files can bypass the page cache if something needs that.
///
/// # Errors
/// There is not, or they cannot; the error says what helps.
pub(super) fn check(plan: &Plan) -> Result<()> {
    if let Some(dir) = &plan.dir {
        ensure!(
            dir.is_dir(),
            "--dir {}: there is no such folder, so nothing was measured",
            dir.display()
        );
    }
    let needed = ROOM.iter().filter(|it| plan.of(it.0).next().is_some());
    let Some(needed) = needed.map(|it| it.1).max() else {
        return Ok(());
    };
    let place = match &plan.dir {
        Some(dir) => Place::chosen(dir),
        None => Place::system(Choice::Dir),
    };
    let room = place
        .room()
        .with_context(|| format!("cannot ask for the room in {}", place.path().display()))?;
    ensure!(
        room >= needed,
        "the folder {} has {} MiB of free space, and this run needs {}, so nothing was measured: free some there, or {}",
        place.path().display(),
        room >> 20,
        needed >> 20,
        Choice::Dir.advice()
    );
    let is_direct = plan.of(&["JBD"]).next().is_some()
        || plan.of(&OF_NODE_LOG).any(|it| it.case == Some(DWOM_DIRECT));
    if is_direct {
        let device = Device::open(DIRECT, plan.dir.as_deref())?;
        device.check().with_context(|| {
            format!(
                "files in {} cannot bypass the page cache (O_DIRECT), as figures of JBD and F2FS need it, so nothing was measured: {}, on a disk, or other papers or figures",
                place.path().display(),
                Choice::Dir.advice()
            )
        })?;
    }
    Ok(())
}
