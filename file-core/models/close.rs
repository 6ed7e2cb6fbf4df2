//! Crashes of a volume that is closed, opened and written to in turns.

use std::sync::{Arc, Mutex};

use spanlock_file_core::fsck;
use spanlock_pmem::simulated::{Simulated, Subject};
use spanlock_testkit::crashes::{Crashable, threads};
use spanlock_verify::{Mode, Suite};

use crate::store::{Content, FILE, PAGE, Volume, content, open, roomy};

/// Makes the file empty. Takes no page, so that the pages of an old checkpoint are intact.
const CUT: u32 = 0;
/// Writes to the start of the file.
const WRITE: u32 = 1;
/// Closes the volume and opens it.
const REOPEN: u32 = 2;
const TEXT: &[u8; 8] = b"written.";

pub(crate) fn suite() -> Suite {
    let claim = "after a crash between a close and the operations after the next opening, no \
                 checkpoint contradicts the logs";
    let closed = || {
        let region = Simulated::new(&roomy());
        close(open(region.clone()).expect("it is sound"));
        region.bytes()
    };
    let sessions = threads(
        "sessions",
        claim,
        &Arc::new(Sessions),
        &(Arc::new(closed) as _),
        &[&[CUT, REOPEN, WRITE, REOPEN, CUT]],
        &[Mode::Cut, Mode::Global],
    );
    let why = "closing needs the last handle";
    let covered = "the pairs of file-core cover it";
    Suite::new("file-core-close")
        .step_bound(2_000)
        .program(sessions)
        .no_pair("cut", "cut", covered)
        .no_pair("cut", "write", covered)
        .no_pair("write", "write", covered)
        .no_pair("cut", "reopen", why)
        .no_pair("write", "reopen", why)
        .no_pair("reopen", "reopen", why)
}

fn close(volume: Volume) {
    volume.close().expect("it is the last handle");
}

/// Volumes that are closed and opened.
struct Sessions;

/// A region, and the volume on it, which is missing only while it is reopened.
struct Session {
    region: Arc<Simulated>,
    volume: Mutex<Option<Volume>>,
}

impl Session {
    fn with<T>(&self, act: impl FnOnce(&Volume) -> T) -> T {
        act(self
            .volume
            .lock()
            .expect("no panic")
            .as_ref()
            .expect("open"))
    }

    fn reopen(&self) {
        let mut volume = self.volume.lock().expect("no panic");
        close(volume.take().expect("open"));
        *volume = Some(open(self.region.clone()).expect("it is sound"));
    }
}

impl Subject for Sessions {
    type Store = Session;
    type State = Content;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Session, String> {
        let report = fsck::check(region).map_err(|why| why.to_string())?;
        if !report.is_sound() {
            return Err("a crash leaves what a check calls damage".to_owned());
        }
        let volume = open(region.clone()).map_err(|why| why.to_string())?;
        Ok(Session {
            region: region.clone(),
            volume: Mutex::new(Some(volume)),
        })
    }

    fn state(&self, session: &Session) -> Result<Content, String> {
        session.with(|volume| {
            let sizes = volume.list();
            let content = content(volume)?;
            let mut files = sizes.iter().map(|(name, _)| volume.open_file(name));
            let agree = sizes.iter().all(|(_, size)| {
                let file = files.next().expect("as many").expect("it is listed");
                file.size() == *size
            });
            match agree {
                true => Ok(content),
                false => Err("the listed sizes are not those of the files".to_owned()),
            }
        })
    }

    fn go_on(&self, session: &Session) -> Result<(), String> {
        session.with(|volume| {
            let file = volume.create("new").map_err(|why| why.to_string())?;
            let bytes = [b'n'; 2 * PAGE as usize];
            file.append(&bytes).map_err(|why| why.to_string())?;
            let again = Simulated::new(&session.region.bytes());
            let again = open(again).map_err(|why| why.to_string())?;
            match content(&again)? == content(volume)? {
                true => Ok(()),
                false => Err("memory and medium differ".to_owned()),
            }
        })
    }

    fn apply(&self, state: &Content, operation: u32, _: Option<&str>) -> Option<Content> {
        let mut state = state.clone();
        let file = state.get_mut(FILE)?;
        // The size comes first.
        match operation {
            CUT => *file = vec![0; 8],
            WRITE => {
                file[0] = file[0].max(8);
                file.resize(file.len().max(16), 0);
                file[8..16].copy_from_slice(TEXT);
            }
            _ => {}
        }
        Some(state)
    }

    fn name(&self, operation: u32) -> String {
        ["cut", "write", "reopen"][operation as usize].to_owned()
    }
}

impl Crashable for Sessions {
    fn perform(&self, session: &Session, operation: u32) -> String {
        let change = |volume: &Volume| {
            let file = volume.open_file(FILE).expect("it exists");
            let done = match operation {
                CUT => file.truncate(0),
                _ => file.write_at(TEXT, 0),
            };
            done.expect("there is room");
        };
        match operation {
            REOPEN => session.reopen(),
            _ => session.with(change),
        }
        "done".to_owned()
    }
}
