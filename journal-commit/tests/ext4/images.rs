//! Images of ext4 file systems, and functions that run e2fsprogs on them.

#![allow(dead_code, reason = "each test uses some of it")]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use spanlock_journal_commit::jbd2::{Extent, Place};

/// Returns whether e2fsprogs is installed. If it is not, prints that the test is skipped, or panics
/// if `CI` is set.
pub(crate) fn have_e2fsprogs() -> bool {
    let there = ["mke2fs", "debugfs", "e2fsck"]
        .iter()
        .all(|name| tool(name).arg("-V").output().is_ok());
    if !there {
        println!("SKIPPED: e2fsprogs is not installed (apt-get install e2fsprogs)");
        assert!(std::env::var_os("CI").is_none(), "e2fsprogs is missing");
    }
    there
}

/// Returns whether this process can make loop devices and mount them, which needs root. If it
/// cannot, prints that the test is skipped.
pub(crate) fn have_loop_mounts() -> bool {
    if !have_e2fsprogs() {
        return false;
    }
    let image = Image::new(1024, "metadata_csum,64bit", 1);
    let tried = Loop::try_new(&image.path).and_then(|device| {
        let point = image.folder().join("point");
        Mount::try_new(&device.path, &point, "ro").map(drop)
    });
    let Err(error) = tried else {
        return true;
    };
    println!(
        "SKIPPED: no loop device can be mounted here: {}",
        error.trim()
    );
    false
}

/// A loop device over a file.
pub(crate) struct Loop {
    pub(crate) path: PathBuf,
}

impl Loop {
    pub(crate) fn new(file: &Path) -> Loop {
        Loop::try_new(file).unwrap()
    }

    fn try_new(file: &Path) -> Result<Loop, String> {
        let mut losetup = tool("losetup");
        let shown = attempt(losetup.args(["--find", "--show"]).arg(file))?;
        let path = PathBuf::from(shown.trim());
        Ok(Loop { path })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // If this fails, the device remains, which a dropped test cannot help.
        let _ = tool("losetup").arg("--detach").arg(&self.path).output();
    }
}

/// A mounted device.
pub(crate) struct Mount {
    pub(crate) point: PathBuf,
}

impl Mount {
    pub(crate) fn new(device: &Path, point: &Path, options: &str) -> Mount {
        Mount::try_new(device, point, options).unwrap()
    }

    pub(crate) fn try_new(device: &Path, point: &Path, options: &str) -> Result<Mount, String> {
        fs::create_dir_all(point).map_err(|error| error.to_string())?;
        let mut mount = tool("mount");
        attempt(
            mount
                .args(["-t", "ext4", "-o", options])
                .arg(device)
                .arg(point),
        )?;
        let point = point.to_owned();
        Ok(Mount { point })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = tool("umount").arg(&self.point).output();
    }
}

/// Runs a command and returns its output, or its output as an error if it fails.
fn attempt(command: &mut Command) -> Result<String, String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    let text = text(&output);
    if output.status.success() {
        Ok(text)
    } else {
        Err(format!("{command:?}: {text}"))
    }
}

/// A file system in a file. It contains one file, `file`.
pub(crate) struct Image {
    folder: tempfile::TempDir,
    pub(crate) path: PathBuf,
    pub(crate) block_bytes: u32,
    /// The block numbers of the journal.
    pub(crate) journal: Vec<u64>,
    /// The block numbers of the file.
    pub(crate) file: Vec<u64>,
}

impl Image {
    /// Creates an image, with these features added to or removed from ext4's defaults.
    pub(crate) fn new(block_bytes: u32, features: &str, blocks: u32) -> Image {
        let folder = Image::scratch();
        let path = folder.path().join("image");
        let content = folder.path().join("content");
        let data = vec![b'a'; (blocks * block_bytes) as usize];
        fs::write(&content, data).unwrap();
        // A journal has at least 1024 blocks, and mke2fs wants the image to be much larger.
        let size = u64::from(block_bytes) * 3072;
        fs::File::create(&path).unwrap().set_len(size).unwrap();
        let journal = format!("size={}", block_bytes / 1024);
        let bytes = block_bytes.to_string();
        let mut make = tool("mke2fs");
        make.args(["-q", "-F", "-t", "ext4", "-b", &bytes, "-J", &journal]);
        run(make.args(["-O", features]).arg(&path));
        debugfs(&path, &format!("write {} file", content.display()));
        let journal = blocks_of(&path, "<8>");
        let file = blocks_of(&path, "file");
        assert_eq!((journal.len(), file.len()), (1024, blocks as usize));
        Image {
            folder,
            path,
            block_bytes,
            journal,
            file,
        }
    }

    /// Returns where the journal lies in the image.
    pub(crate) fn place(&self) -> Place {
        place_of(&self.journal)
    }

    /// Returns a folder for images: in memory where possible, because each image is written and
    /// read in full.
    pub(crate) fn scratch() -> tempfile::TempDir {
        let memory = tempfile::tempdir_in("/dev/shm");
        memory.or_else(|_| tempfile::tempdir()).unwrap()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    /// Returns the file's content in an image.
    pub(crate) fn file_of(&self, image: &[u8]) -> Vec<u8> {
        let size = self.block_bytes as usize;
        let block = |number: &u64| &image[*number as usize * size..][..size];
        self.file.iter().flat_map(block).copied().collect()
    }

    /// Runs debugfs with a script, writing to the image.
    pub(crate) fn script(&self, commands: &str) {
        let script = self.folder.path().join("script");
        fs::write(&script, commands).unwrap();
        let mut debugfs = tool("debugfs");
        let done = run(debugfs.arg("-w").arg("-f").arg(script).arg(&self.path));
        let text = text(&done);
        assert!(
            !text.contains("while") && !text.contains("nvalid"),
            "{text}"
        );
    }

    /// Returns an image after `e2fsck -fy`, and the program's output.
    pub(crate) fn fsck(&self, image: &[u8]) -> (Vec<u8>, String) {
        let path = self.folder.path().join("fsck");
        overwrite(&path, image);
        let done = (tool("e2fsck").arg("-fy").arg(&path).output()).unwrap();
        let text = text(&done);
        // Exit status 0 means nothing to do; 1, errors corrected; 2, corrected, and a reboot is
        // needed.
        assert!(done.status.code().is_some_and(|code| code < 4), "{text}");
        (fs::read(&path).unwrap(), text)
    }
}

/// Mounts and unmounts the image, so that the kernel replays the journal. Returns the
/// image afterwards, or the error if the kernel refuses it.
pub(crate) fn kernel(image: &Image, crashed: &[u8]) -> Result<Vec<u8>, String> {
    let (path, point) = (image.folder().join("mount"), image.folder().join("point"));
    overwrite(&path, crashed);
    fs::create_dir_all(&point).unwrap();
    let mount = tool("mount")
        .args(["-o", "loop"])
        .arg(&path)
        .arg(&point)
        .output();
    let mount = mount.map_err(|error| error.to_string())?;
    if !mount.status.success() {
        return Err(text(&mount));
    }
    run(tool("umount").arg(&point));
    Ok(fs::read(&path).unwrap())
}

/// Returns whether the kernel can mount a sound image.
pub(crate) fn kernel_mounts() -> bool {
    let image = Image::new(1024, "metadata_csum,64bit", 8);
    match kernel(&image, &image.bytes()) {
        Ok(_) => true,
        Err(error) => {
            println!(
                "SKIPPED the kernel, which mounts no image here: {}",
                error.trim()
            );
            false
        }
    }
}

/// Returns the place of a journal in these blocks.
pub(crate) fn place_of(journal: &[u64]) -> Place {
    let mut extents: Vec<Extent> = Vec::new();
    for block in journal {
        match extents.last_mut() {
            Some(last) if last.first + last.blocks == *block => last.blocks += 1,
            _ => extents.push(Extent {
                first: *block,
                blocks: 1,
            }),
        }
    }
    Place::extents(extents)
}

/// Writes an image over another one of the same size. It does not truncate the file, so the memory
/// stays allocated.
pub(crate) fn overwrite(path: &Path, image: &[u8]) {
    let mut options = fs::File::options();
    let file = options.write(true).create(true).truncate(false).open(path);
    file.unwrap().write_all_at(image, 0).unwrap();
}

/// Returns a command for a system program, even if it is not in the user's path.
pub(crate) fn tool(name: &str) -> Command {
    let folders = ["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).join(name));
    let found = folders.into_iter().find(|path| path.exists());
    found.map_or_else(|| Command::new(name), Command::new)
}

pub(crate) fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    output
}

/// Runs one debugfs command, writing to the image, and returns its output.
pub(crate) fn debugfs(image: &Path, request: &str) -> String {
    text(&run(tool("debugfs").args(["-w", "-R", request]).arg(image)))
}

pub(crate) fn blocks_of(image: &Path, name: &str) -> Vec<u64> {
    let output = run(tool("debugfs")
        .args(["-R", &format!("blocks {name}")])
        .arg(image));
    let list = String::from_utf8(output.stdout).unwrap();
    list.split_whitespace()
        .map(|it| it.parse().unwrap())
        .collect()
}
