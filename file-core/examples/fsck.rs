//! Checks a volume that is not open, lists all damage, and repairs it on request.
//!
//! ```text
//! cargo run -p spanlock-file-core --example fsck -- [--repair] [--json] VOLUME
//! ```
//!
//! With `--demonstrate`, it makes a volume in a temporary folder, damages it, checks it, repairs
//! it, and asserts the result of each step.

use std::error::Error;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use spanlock_file_core::fsck::{self, Finding, Repair, Report};
use spanlock_file_core::{Error as VolumeError, FormatOptions, Volume};
use spanlock_pmem::{MappedFile, Options, PmemError};
use spanlock_range_lock::RwCounter;

const REPAIRED: u8 = 1;
const DAMAGED: u8 = 4;
const FAILED: u8 = 8;

/// Checks a volume that is not open, and lists all damage. Writes to the volume only with --repair.
#[derive(Parser)]
#[command(
    name = "fsck",
    override_usage = "fsck [--repair] [--json] [--verbose] VOLUME\n       fsck --demonstrate",
    after_long_help = "\
Damage:
  - a damaged superblock or journal
  - an inode that cannot be read
  - a damaged pointer, page or entry of a log
  - a page that is in use twice
  - data that does not match its checksum, if the volume has data checksums
  - a name whose inode is missing
  With --verbose, inodes without a name are listed, too. They are not damage: a removal leaves such
  an inode. But a file that has lost its name through damage leaves one, too.

Repair:
  A repair keeps everything that is readable and has a name. It drops each damaged entry of a log:
  in the log of a directory, that loses one name; in the log of a file, it loses one change, and
  what the change had replaced reappears. It cuts off a log before the first damaged page; in the
  log of a directory, that can lose many names. A file that has lost its last name is lost. A file
  or directory whose inode is all zeros becomes empty. Damaged data becomes a hole, which reads as
  zeros. If a repair is interrupted, run it again.
  Back up the volume before you repair it.

Exit status:
  (It tells of the volume, even if the output cannot be written.)
  0  the volume is sound
  1  the volume was damaged, and --repair has repaired all damage
  4  the volume is damaged; with --repair: some damage is left, for example for lack of space
  8  the volume cannot be read, the check failed, or the arguments are wrong"
)]
struct Arguments {
    /// Repair the damage, and list what was found.
    #[arg(long)]
    repair: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Also list inodes without a name, which are not damage. JSON always lists them.
    #[arg(long, short)]
    verbose: bool,
    /// The file that contains the volume. No process may have the volume open. Without --repair, it
    /// may be a file that cannot be written to.
    #[arg(value_name = "VOLUME", required_unless_present = "demonstrate")]
    volume: Option<PathBuf>,
    /// Make a small volume in a temporary folder, damage it, check it, and repair it.
    #[arg(long, exclusive = true)]
    demonstrate: bool,
}

fn main() -> ExitCode {
    command(std::env::args_os(), &mut io::stdout(), &mut io::stderr()).into()
}

/// Runs the command with these arguments, the first of which is its name. Writes its output to
/// `out`, and error messages to `err`. Returns the exit status.
pub(crate) fn command(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> u8 {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            let is_wrong = error.use_stderr();
            // If printing fails, there is no other place to report it.
            let _ = match is_wrong {
                true => write!(err, "{}", error.render()),
                false => write!(out, "{}", error.render()),
            };
            return if is_wrong { FAILED } else { 0 };
        }
    };
    let mut text = Vec::new();
    let done = match &arguments.volume {
        Some(path) => run(path, &arguments, &mut text),
        None => demonstrate(&mut text).map(|()| 0),
    };
    // The status tells of the volume, even if nobody reads the output: `fsck VOLUME | true`.
    let _ = out.write_all(&text);
    done.unwrap_or_else(|error| {
        // As above.
        let _ = writeln!(err, "fsck: {}", with_sources(&*error));
        FAILED
    })
}

/// Returns the message of an error, followed by those of its causes.
fn with_sources(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        message = format!("{message}: {source}");
        next = source.source();
    }
    message
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
    // A check needs no permission to write.
    let region = match repairs {
        true => MappedFile::open(path, Options::default()),
        false => MappedFile::open_read_only(path),
    };
    let region = region.map_err(|error| explained(error, repairs))?;
    let report = match repairs {
        true => fsck::repair(&region),
        false => fsck::check(&region),
    };
    let report = report.map_err(|error| match error {
        // The library's advice is to run fsck.
        VolumeError::Corrupt { what, .. } => {
            let path = path.display();
            format!("{path}: cannot be checked: {what}: restore the volume from a backup")
        }
        error => format!("{}: {error}", path.display()),
    })?;
    // Reports whether the medium has failed since the region was opened.
    region.check()?;
    Ok(report)
}

/// Returns an error that tells the user of this command what to do. That of the library tells its
/// caller.
fn explained(error: PmemError, repairs: bool) -> Box<dyn Error> {
    let (path, what) = match &error {
        PmemError::NotFound { path, .. } => (path, "no such file"),
        PmemError::Empty { path } => (path, "the file is empty: it is not a volume"),
        PmemError::PermissionDenied { path, .. } if repairs => {
            let what = "permission denied: get permission to write to it, or check it without \
                        --repair";
            (path, what)
        }
        PmemError::PermissionDenied { path, .. } => {
            (path, "permission denied: get permission to read it")
        }
        PmemError::ReadOnlyFileSystem { path, .. } => {
            let what = "on a read-only file system: mount it writable, or check the volume \
                        without --repair";
            (path, what)
        }
        PmemError::InUse { path } => (path, "in use: end the program that has it open"),
        _ => return error.into(),
    };
    format!("{}: {what}", path.display()).into()
}

fn print(report: &Report, verbose: bool, out: &mut dyn Write) -> io::Result<()> {
    for finding in &report.findings {
        if finding.is_damage() || verbose {
            writeln!(out, "{finding}")?;
        }
    }
    let takes_names = |it: &Finding| {
        let takes = [
            Repair::CutLog,
            Repair::EmptyInode,
            Repair::EraseGroup,
            Repair::EraseName,
        ];
        takes.contains(&it.repair)
    };
    let unnamed = report.findings.iter().filter(|it| !it.is_damage()).count();
    if report.findings.iter().any(takes_names) && unnamed > 0 {
        let inodes = counted(unnamed as u64, "inode has", "inodes have");
        writeln!(
            out,
            "{inodes} no name (--verbose lists them): of files and directories that were removed, \
             or that the damage has left without a name, which are lost"
        )?;
    }
    let (damage, left) = (
        report.damage().count(),
        report.damage().filter(|it| !it.is_repaired).count(),
    );
    let state = match (damage, left) {
        (0, _) => "sound".to_owned(),
        (1, 0) => "1 damaged place, repaired".to_owned(),
        (_, 0) => format!("{damage} damaged places, all repaired"),
        (_, _) if damage == left => counted(damage as u64, "damaged place", "damaged places"),
        _ => format!("{damage} damaged places, {left} not repaired"),
    };
    let files = counted(report.files, "file", "files");
    let directories = counted(report.directories, "directory", "directories");
    writeln!(out, "{files}, {directories} besides the root: {state}")
}

/// Returns the number with the form of the noun that it takes.
fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
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
    let volume = Volume::format(region, &options, |_| RwCounter::new())?;
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
    // Inode 3 is that of "letters/torn". It begins with the head pointer of the file's log.
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
    let (volume, _) = Volume::open(region, |_| RwCounter::new())?;
    let mut kept = [0; 12];
    volume.open_file("letters/kept")?.read_at(&mut kept, 0)?;
    assert_eq!(&kept, b"letters/kept");
    Ok(())
}
