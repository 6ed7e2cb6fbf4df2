//! Checks a volume that is not open, lists all damage, and repairs it if asked to.
//!
//! ```text
//! cargo run -p spanlock-file-core --example fsck -- [--repair] [--json] VOLUME
//! ```
//!
//! Without VOLUME, it demonstrates itself: it makes a volume in a temporary folder, damages it,
//! checks it, repairs it, and asserts the result of each step.

use std::error::Error;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use spanlock_file_core::fsck::{self, Finding, Report};
use spanlock_file_core::{FileCore, FormatOptions};
use spanlock_pmem::{MappedFile, Options};
use spanlock_range_lock::RwCounter;

const REPAIRED: u8 = 1;
const DAMAGED: u8 = 4;
const FAILED: u8 = 8;

/// Checks a volume that is not open, and lists all damage. Writes nothing, unless it is asked to
/// repair the volume.
///
/// Without VOLUME, makes a small volume in a temporary folder, damages it, and shows how it is
/// checked and repaired.
#[derive(Parser)]
#[command(
    name = "fsck",
    after_long_help = "\
What is listed:
  damaged superblocks; inodes that cannot be read; logs with damaged pointers, pages, entries or
  checksums; pages in use twice; data that does not match its checksum, in a volume that has data
  checksums; names whose inode is not there; and, with --verbose, inodes that no name refers to.
  Those are no damage: they belonged to what was removed, or to what has lost its name.

What a repair does:
  It keeps all that is readable. A damaged entry of a log is dropped: of a file, one change, so what
  it had replaced reappears; of a directory, one name. A log ends before its first damaged page.
  Damaged data becomes a hole, which reads as zeros. A repair can be interrupted and repeated.
  Back the volume up first, if there is anything in it to lose.

Exit status:
  0  the volume is sound
  1  all damage has been repaired (--repair)
  4  the volume is damaged; with --repair: some damage is left, for example for lack of space
  8  the volume cannot be read, the check failed, or the arguments are wrong"
)]
struct Arguments {
    /// Repair the damage.
    #[arg(long)]
    repair: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Also list what is not damage: inodes that no name refers to. JSON always lists them.
    #[arg(long, short)]
    verbose: bool,
    /// The file that contains the volume. No process may have the volume open.
    #[arg(value_name = "VOLUME")]
    volume: Option<PathBuf>,
}

fn main() -> ExitCode {
    command(std::env::args_os(), &mut io::stdout()).into()
}

/// Runs the command with these arguments, the first of which is its name. Writes its output to
/// `out`. Returns the exit status.
pub(crate) fn command(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    out: &mut dyn Write,
) -> u8 {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // If this fails, there is nobody to tell.
            let _ = match error.use_stderr() {
                true => error.print(),
                false => write!(out, "{}", error.render()),
            };
            return if error.use_stderr() { FAILED } else { 0 };
        }
    };
    let done = match &arguments.volume {
        Some(path) => run(path, &arguments, out),
        None if arguments.repair || arguments.json || arguments.verbose => {
            Err("name a volume: options alone check nothing".into())
        }
        None => demonstrate(out).map(|()| 0),
    };
    done.unwrap_or_else(|error| {
        // If this fails, there is nobody to tell.
        let _ = writeln!(io::stderr(), "fsck: {error}");
        FAILED
    })
}

/// Checks or repairs the volume, prints the report, and returns the exit status.
fn run(path: &Path, arguments: &Arguments, out: &mut dyn Write) -> Result<u8, Box<dyn Error>> {
    let report = report_of(path, arguments.repair)?;
    if arguments.json {
        writeln!(out, "{:#}", as_json(&report))?;
    } else {
        print(&report, arguments.verbose, out)?;
    }
    Ok(match (report.is_sound(), report.is_repaired()) {
        (true, _) => 0,
        (false, true) => REPAIRED,
        (false, false) => DAMAGED,
    })
}

fn report_of(path: &Path, repairs: bool) -> Result<Report, Box<dyn Error>> {
    let region = MappedFile::open(path, Options::default())?;
    let report = match repairs {
        true => fsck::repair(&region),
        false => fsck::check(&region),
    };
    let report = report.map_err(|error| format!("{}: {error}", path.display()))?;
    // A medium that fails tells so here.
    region.check()?;
    Ok(report)
}

fn print(report: &Report, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    for finding in &report.findings {
        if finding.is_damage() || verbose {
            writeln!(out, "{finding}")?;
        }
    }
    let (damage, left) = (
        report.damage().count(),
        report.damage().filter(|it| !it.is_repaired).count(),
    );
    let state = match (damage, left) {
        (0, _) => "sound".to_owned(),
        (_, 0) => format!("{damage} damages, all repaired"),
        (_, _) if damage == left => format!("{damage} damages"),
        _ => format!("{damage} damages, {left} left"),
    };
    writeln!(
        out,
        "{} files, {} directories besides the root: {state}",
        report.files, report.directories
    )
}

fn as_json(report: &Report) -> serde_json::Value {
    let finding = |it: &Finding| {
        json!({
            "what": it.what,
            "is_damage": it.is_damage(),
            "path": it.path,
            "inode": it.place.inode,
            "at": it.place.at,
            "offset": it.place.offset,
            "bytes": it.bytes,
            "repair": it.repair.to_string(),
            "is_repaired": it.is_repaired,
        })
    };
    json!({
        "files": report.files,
        "directories": report.directories,
        "is_sound": report.is_sound(),
        "is_repaired": report.is_repaired(),
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}

/// Makes a volume, damages it, repairs it, and checks every step.
fn demonstrate(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("volume");
    let region = MappedFile::create(&path, 1 << 20, Options::default())?;
    let options = FormatOptions::new().data_checksums(true);
    let volume = FileCore::format(region, &options, |_| RwCounter::new())?;
    volume.create_dir("letters")?;
    for name in ["letters/kept", "letters/torn", "letters/stained"] {
        let file = volume.create(name)?;
        file.write_at(name.as_bytes(), 0)?;
        file.write_at(&[b'.'; 4096], 8192)?;
    }
    drop(volume);
    writeln!(out, "a sound volume:")?;
    let report = report_of(&path, false)?;
    print(&report, false, out)?;
    assert!(report.is_sound());

    let bytes = fs::read(&path)?;
    let file = OpenOptions::new().write(true).open(&path)?;
    // Inode 3 is that of "letters/torn", and its head pointer is the first word there.
    file.write_all_at(&[0x5A; 8], 4096 + 3 * 128)?;
    let stained = b"letters/stained\0";
    let at = bytes.windows(stained.len()).position(|it| it == stained);
    let at = at.ok_or("the file's first page is in the volume")? as u64;
    file.write_all_at(b"LETTERS", at)?;
    drop(file);

    writeln!(out, "\nthe same volume, damaged:")?;
    let report = report_of(&path, false)?;
    print(&report, false, out)?;
    assert_eq!(report.damage().count(), 2);
    writeln!(out, "\nrepaired:")?;
    let report = report_of(&path, true)?;
    print(&report, false, out)?;
    assert!(report.is_repaired());
    writeln!(out, "\nchecked again:")?;
    let report = report_of(&path, false)?;
    print(&report, false, out)?;
    assert!(report.is_sound());

    let region = MappedFile::open(&path, Options::default())?;
    let (volume, _) = FileCore::open(region, |_| RwCounter::new())?;
    let mut kept = [0; 12];
    volume.open_file("letters/kept")?.read_at(&mut kept, 0)?;
    assert_eq!(&kept, b"letters/kept");
    Ok(())
}
