//! Every way to write back (each instruction of this processor, msync, sync), and what each claims
//! to survive.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::common::{assert_holds, folder, get, pattern, put, region};
use spanlock_pmem::{Durability, Durable, FlushInstruction, Flushed, MappedFile, Options, Pmem};

/// Flushes every offset in a line with lengths around that of a line. No flush may change a byte.
fn exercise(region: &MappedFile) {
    let mut model = get(region, 0, 4096);
    for (seed, at) in (0..64_usize).chain([127, 1000, 4096 - 200]).enumerate() {
        for len in [0, 1, 7, 8, 63, 64, 65, 128, 200] {
            let data = pattern(seed + len, len);
            model[at..at + len].copy_from_slice(&data);
            put(region, at as u64, &data);
        }
        assert_holds(region, 0, &model);
    }
    let mark = region.publish(4088, u64::MAX, Durable::at_rest());
    let durable = region.persist(mark);
    let mark = region.publish(4088, 1, durable);
    region.persist(mark);
    assert_eq!(region.load(4088), 1);
    model[4088..].copy_from_slice(&1_u64.to_le_bytes());
    assert!(std::fs::read(region.path()).unwrap()[..4096] == model);
}

#[test]
fn every_instruction_of_this_processor_works() {
    let available = FlushInstruction::available();
    assert_eq!(FlushInstruction::detect(), available.first().copied());
    if cfg!(target_arch = "x86_64") {
        assert!(
            available.contains(&FlushInstruction::Clflush),
            "every x86-64 has clflush"
        );
    }
    for instruction in available {
        println!("{instruction}");
        let folder = folder();
        let options = Options::new().flush_instruction(instruction);
        let region = MappedFile::create(folder.path().join("region"), 8192, options).unwrap();
        assert_eq!(region.flush_instruction(), Some(instruction));
        exercise(&region);
    }
}

/// The kernel's list of the processor's features must agree with this crate's.
#[test]
#[cfg(target_arch = "x86_64")]
fn detection_agrees_with_the_kernel() {
    let Ok(cpuinfo) = std::fs::read_to_string("/proc/cpuinfo") else {
        return;
    };
    let flags = cpuinfo
        .lines()
        .find(|line| line.starts_with("flags"))
        .unwrap();
    for (instruction, flag) in [
        (FlushInstruction::Clwb, "clwb"),
        (FlushInstruction::ClflushOpt, "clflushopt"),
    ] {
        let listed = flags.split_whitespace().any(|found| found == flag);
        assert_eq!(instruction.is_available(), listed, "{flag}");
    }
}

#[test]
fn the_default_is_the_best_instruction() {
    let folder = folder();
    let region = region(&folder, 8192);
    assert_eq!(region.flush_instruction(), FlushInstruction::detect());
    exercise(&region);
}

#[test]
fn msync_uses_no_instruction() {
    let folder = folder();
    let options = Options::new().msync(true);
    let region = MappedFile::create(folder.path().join("region"), 8192, options).unwrap();
    assert_eq!(region.flush_instruction(), None);
    // Less than `exercise`, because each flush goes to the disk.
    put(&region, 4000, &pattern(1, 200));
    put(&region, 8192, &[]);
    // SAFETY: only one thread runs, and it fences before it accesses the bytes.
    let streamed = unsafe { region.write_streaming(10, &pattern(2, 3000)) };
    region.fence(streamed);
    // SAFETY: only one thread runs.
    let written = unsafe { region.write(8191, &[9]) };
    region.fence(region.try_flush(written).unwrap());
    let file = std::fs::read(region.path()).unwrap();
    assert_eq!(file[4000..4200], pattern(1, 200));
    assert_eq!(file[10..3010], pattern(2, 3000));
    assert_eq!(file[8191], 9);
    region.check().unwrap();
}

#[test]
fn many_flushes_share_one_fence() {
    let folder = folder();
    let region = region(&folder, 1 << 16);
    let flushed = (0..16).fold(Flushed::nothing(), |flushed, page| {
        // SAFETY: only one thread runs, and it fences streamed bytes before it accesses them.
        flushed.and(unsafe {
            if page % 2 == 0 {
                region.write_streaming(page * 4096, &pattern(page as usize, 4096))
            } else {
                region.flush(region.write(page * 4096, &pattern(page as usize, 4096)))
            }
        })
    });
    region.fence(flushed);
    for page in 0..16 {
        assert_holds(&region, page * 4096, &pattern(page as usize, 4096));
    }
}

#[test]
fn a_token_of_another_region_is_refused() {
    let (ours, theirs) = (folder(), folder());
    let ours = region(&ours, 4096);
    let theirs = region(&theirs, 1 << 20);
    // SAFETY: only one thread runs.
    let written = unsafe { theirs.write(500_000, b"theirs") };
    let panicked = catch_unwind(AssertUnwindSafe(|| drop(ours.flush(written)))).unwrap_err();
    assert_eq!(
        panicked.downcast_ref::<String>().unwrap(),
        "the written bytes 500000..500006 belong to another region"
    );
}

fn durability_in(folder: &Path, options: Options) -> Durability {
    let folder = tempfile::tempdir_in(folder).unwrap();
    let region = MappedFile::create(folder.path().join("region"), 4096, options).unwrap();
    put(&region, 0, b"x");
    region.durability()
}

#[test]
fn tmpfs_never_claims_to_survive_a_power_cut() {
    let shm = Path::new("/dev/shm");
    let is_tmpfs = rustix::fs::statfs(shm).is_ok_and(|found| found.f_type as u32 == 0x0102_1994);
    if !is_tmpfs {
        eprintln!("skipped: /dev/shm is not a tmpfs");
        return;
    }
    for msync in [false, true] {
        let options = Options::new().msync(msync);
        assert_eq!(durability_in(shm, options), Durability::ProcessKill);
    }
}

/// `SPANLOCK_DAX_DIR` names a folder on a file system mounted with `-o dax=always`.
#[test]
fn dax_survives_a_power_cut() {
    let Some(dax) = std::env::var_os("SPANLOCK_DAX_DIR") else {
        eprintln!("skipped: SPANLOCK_DAX_DIR names no DAX file system");
        return;
    };
    let dax = Path::new(&dax);
    assert_eq!(durability_in(dax, Options::new()), Durability::PowerFail);
    assert_eq!(
        durability_in(dax, Options::new().msync(true)),
        Durability::PowerFail
    );
    let folder = tempfile::tempdir_in(dax).unwrap();
    let mut region = region(&folder, 8192);
    exercise(&region);
    region.grow(1 << 20).unwrap();
    exercise(&region);
    let path = region.path().to_owned();
    drop(region);
    let region = MappedFile::open(path, Options::new()).unwrap();
    assert_eq!(
        (region.durability(), region.len()),
        (Durability::PowerFail, 1 << 20)
    );
    assert_eq!(region.load(4088), 1);
}
