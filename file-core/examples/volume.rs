//! Formats a volume in a temporary file, writes to it, reopens it, and lists its files.
//!
//! ```text
//! cargo run -p spanlock-file-core --example volume
//! ```

use std::thread;

use spanlock_file_core::{FormatOptions, Volume};
use spanlock_pmem::{MappedFile, Options};
use spanlock_srl::SrlArray;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("volume");

    let region = MappedFile::create(&path, 16 << 20, Options::default())?;
    println!("durability of this region: {}", region.durability());
    // The range lock of each file has one word per page.
    let volume = Volume::try_format(region, &FormatOptions::new(), SrlArray::new)?;

    let shared = volume.create("shared by four threads")?;
    thread::scope(|scope| {
        for writer in 0..4_u8 {
            let shared = &shared;
            // The threads write disjoint pages of one file, so they do not block each other.
            scope.spawn(move || {
                for page in 0..8 {
                    let offset = (page * 4 + writer as u64) * 4096;
                    shared
                        .write_at(&[b'a' + writer; 4096], offset)
                        .expect("there is space");
                }
            });
        }
    });
    volume.create("forgotten")?.write_at(b"soon gone", 0)?;
    volume.remove("forgotten")?;

    // A volume needs no shutdown, so this is equivalent to a crash.
    drop((volume, shared));

    let region = MappedFile::open(&path, Options::default())?;
    let (volume, report) = Volume::try_open(region, SrlArray::new)?;
    println!(
        "files recovered: {}; committed groups: {}; log pages: {}",
        report.files, report.committed_groups, report.log_pages
    );
    for (name, size) in volume.list() {
        let mut letters = vec![0; size as usize];
        volume.open_file(&name)?.read_at(&mut letters, 0)?;
        let pages: String = letters
            .chunks(4096)
            .map(|page| char::from(page[0]))
            .collect();
        println!("{name:?}: {size} bytes; the first byte of each page: {pages}");
    }
    println!("{:?}", volume.stats());
    assert!(volume.check()?.damaged.is_empty());
    Ok(())
}
