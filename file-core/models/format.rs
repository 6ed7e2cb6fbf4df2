//! Crashes while a region is formatted that already has a volume.

use std::sync::Arc;

use spanlock_file_core::{Error, FormatOptions};
use spanlock_pmem::simulated::{Simulated, Subject};
use spanlock_testkit::crashes::{Crashable, threads};
use spanlock_verify::Suite;

use crate::store::{Content, FILE, PAGE, Volume, content, lock, open};

pub(crate) fn suite() -> Suite {
    let claim = "until the format is complete, the region has its old volume, or none and can be \
                 formatted again";
    let old = || {
        let volume = format(&Simulated::new(&[0; 16 * PAGE as usize]));
        volume.create(FILE).expect("there is room");
        volume.pmem().bytes()
    };
    let program = threads(
        "format",
        claim,
        &Arc::new(Formats),
        &(Arc::new(old) as _),
        &[&[FORMAT]],
    );
    Suite::new("file-core-format")
        .step_bound(200)
        .program(program)
        .no_pair("format", "format", "no other thread uses a region yet")
}

/// The whole format.
const FORMAT: u32 = 0;
/// The part of the format that may leave no volume.
const ERASE: u32 = 1;

fn format(region: &Arc<Simulated>) -> Volume {
    let options = FormatOptions::new().clock(|| 0);
    let options = options.inodes(8).max_file_size(16 * PAGE);
    Volume::format(region.clone(), &options, lock).expect("there is room")
}

/// Whether the error says that both superblocks are damaged.
fn is_superblocks(error: &Error) -> bool {
    matches!(error, Error::Corrupt { place, .. } if place.at == 0)
}

/// Volumes that are formatted.
struct Formats;

/// A region, and the volume that was found in it.
struct Found {
    region: Arc<Simulated>,
    volume: Option<Volume>,
}

impl Subject for Formats {
    type Store = Found;
    /// What the volume contains, if there is one.
    type State = Option<Content>;

    fn recover(&self, region: &Arc<Simulated>) -> Result<Found, String> {
        let volume = match open(region.clone()) {
            Ok(volume) => Some(volume),
            Err(Error::NotAVolume { .. }) => None,
            Err(error) if is_superblocks(&error) => None,
            Err(error) => return Err(error.to_string()),
        };
        let region = region.clone();
        Ok(Found { region, volume })
    }

    fn state(&self, found: &Found) -> Result<Option<Content>, String> {
        found.volume.as_ref().map(content).transpose()
    }

    fn go_on(&self, found: &Found) -> Result<(), String> {
        let Some(volume) = &found.volume else {
            let again = Simulated::new(&found.region.bytes());
            drop(format(&again));
            let formatted = open(again).map_err(|why| why.to_string())?;
            return match content(&formatted)?.is_empty() {
                true => Ok(()),
                false => Err("a region that was formatted again is not empty".to_owned()),
            };
        };
        let file = volume.create("new").map_err(|why| why.to_string())?;
        let appended = file.append(b"text").map_err(|why| why.to_string())?;
        let again = open(Simulated::new(&found.region.bytes())).map_err(|why| why.to_string())?;
        match appended == 0 && content(&again)? == content(volume)? {
            true => Ok(()),
            false => Err("memory and medium differ".to_owned()),
        }
    }

    fn apply(&self, state: &Self::State, operation: u32, _: Option<&str>) -> Option<Self::State> {
        match (operation, state) {
            (FORMAT, _) => Some(Some(Content::new())),
            // The format erases the old volume, not the new one.
            (_, Some(files)) if !files.is_empty() => Some(None),
            _ => None,
        }
    }

    fn name(&self, operation: u32) -> String {
        ["format", "erase"][operation as usize].to_owned()
    }
}

impl Crashable for Formats {
    fn perform(&self, found: &Found, _: u32) -> String {
        let whole = || {
            format(&found.region);
            "done".to_owned()
        };
        found.region.perform(ERASE, whole)
    }
}
