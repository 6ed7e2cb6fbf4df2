//! The check of imported files: from the child's output, it derives which chunks must be present
//! and which may be.

use std::collections::BTreeMap;

use spanlock_benches::import::CHUNK;
use spanlock_benches::killed::{HOT_FILES, Line};

use crate::Volume;
use crate::common::Files;

/// For each imported file, by its name in the volume, which chunks are present.
pub(crate) type Present = BTreeMap<String, Vec<bool>>;

/// Checks all imported files of the volume and returns which chunks they have. `before` is what was
/// present when the child started, and `prefix` is the prefix of its import. A name in the volume
/// is a prefix followed by the name in the folder.
pub(crate) fn check(
    volume: &Volume,
    files: &Files,
    before: &Present,
    prefix: &str,
    told: &[Line],
) -> Result<Present, String> {
    let mut present = Present::new();
    for (path, size) in volume.list() {
        if HOT_FILES.contains(&path.as_str()) {
            continue;
        }
        let name = path.split_once(':').map_or("", |(_, name)| name);
        let wanted = files
            .get(name)
            .ok_or_else(|| format!("{path} was never created"))?;
        let mut content = vec![0; size as usize];
        let file = volume.open_file(&path).map_err(|it| it.to_string())?;
        file.read_at(&mut content, 0).map_err(|it| it.to_string())?;
        let chunks = chunks_of(&content, wanted).map_err(|why| format!("{path}: {why}"))?;
        present.insert(path, chunks);
    }
    for line in told {
        match line {
            Line::Imported { chunk, file } => {
                let chunks = present.get(&format!("{prefix}{file}"));
                // An empty file has no chunks; its creation is reported as chunk 0.
                if chunks.is_none_or(|it| it.get(*chunk) == Some(&false)) {
                    return Err(format!("chunk {chunk} of {file} was reported but is lost"));
                }
            }
            Line::Removed(path) if present.contains_key(path) => {
                return Err(format!("{path} was reported as removed but still exists"));
            }
            _ => {}
        }
    }
    check_others(before, &present, prefix, told)?;
    Ok(present)
}

/// Checks files of earlier imports: they are unchanged or removed. One unreported removal may have
/// been in progress.
fn check_others(
    before: &Present,
    present: &Present,
    prefix: &str,
    told: &[Line],
) -> Result<(), String> {
    let mut in_progress = 0;
    for (path, chunks) in before.iter().filter(|(path, _)| !path.starts_with(prefix)) {
        match present.get(path) {
            Some(now) if now == chunks => {}
            Some(_) => return Err(format!("{path} has changed although nothing wrote to it")),
            None if told.contains(&Line::Removed(path.clone())) => {}
            None => in_progress += 1,
        }
    }
    // An import removes old files before it writes.
    let removing = told.iter().all(|it| matches!(it, Line::Removed(_)));
    if in_progress > usize::from(removing) {
        return Err(format!(
            "{in_progress} files are gone that were not reported as removed"
        ));
    }
    Ok(())
}

/// Returns which chunks of `wanted` are in `content`. Each must be complete or a hole.
fn chunks_of(content: &[u8], wanted: &[u8]) -> Result<Vec<bool>, String> {
    let (mut present, mut end) = (Vec::new(), 0);
    for (i, chunk) in wanted.chunks(CHUNK as usize).enumerate() {
        let start = i * CHUNK as usize;
        let found = content.get(start..).unwrap_or_default();
        let found = &found[..found.len().min(chunk.len())];
        present.push(found == chunk);
        if found == chunk {
            end = start + chunk.len();
        } else if found.iter().any(|&byte| byte != 0) {
            return Err(format!("the chunk at {start} is only partly present"));
        }
    }
    if content.len() == end {
        Ok(present)
    } else {
        Err(format!("{} bytes, but {end} were written", content.len()))
    }
}

/// The check detects a changed page, a partial chunk, and a missing file.
#[test]
fn the_check_of_files_detects_damage() {
    let scene = crate::Scene::new(&mut crate::common::Random::new(7));
    let volume = scene.open();
    let (name, content) = scene
        .files
        .iter()
        .find(|(_, content)| content.len() > 3 * CHUNK as usize)
        .expect("a large file");
    let path = format!("0:{name}");
    if let Some((parent, _)) = path.rsplit_once('/') {
        volume.create_dir_all(parent).unwrap();
    }
    let file = volume.create(&path).unwrap();
    let imported = |chunk| {
        let file = name.clone();
        vec![Line::Imported { chunk, file }]
    };
    let nothing = Present::new();
    let check = |told: &[Line]| check(&volume, &scene.files, &nothing, "0:", told);
    let count = |present: Present| present[&path].iter().filter(|it| **it).count();

    assert_eq!(check(&[]).map(count), Ok(0));
    assert!(check(&imported(1)).unwrap_err().contains("is lost"));
    let chunk = CHUNK as usize;
    file.write_at(&content[chunk..2 * chunk], CHUNK).unwrap();
    assert_eq!(check(&imported(1)).map(count), Ok(1));
    assert!(check(&imported(0)).unwrap_err().contains("is lost"));
    file.write_at(&content[..5000], 0).unwrap();
    assert!(check(&[]).unwrap_err().contains("partly present"));
    file.write_at(content, 0).unwrap();
    let whole = check(&imported(2)).unwrap();
    assert_eq!(count(whole.clone()), content.len().div_ceil(chunk));
    let removed = [Line::Removed(path.clone())];
    assert!(check(&removed).unwrap_err().contains("still exists"));
    file.write_at(&[!content[9000]], 9000).unwrap();
    assert!(check(&[]).unwrap_err().contains("partly present"));
    file.write_at(&content[9000..9001], 9000).unwrap();
    file.write_at(&[0], content.len() as u64).unwrap();
    assert!(check(&[]).unwrap_err().contains("bytes"));
    volume.remove(&path).unwrap();

    // Files of earlier imports.
    let later = |before: &Present, told: &[Line]| {
        super::files::check(&volume, &scene.files, before, "1:", told)
    };
    assert!(later(&whole, &removed).is_ok() && later(&whole, &[]).is_ok());
    let ended = later(&whole, &[Line::End]).unwrap_err();
    assert!(ended.contains("not reported as removed"), "{ended}");
    volume.create(&path).unwrap();
    assert!(later(&whole, &[]).unwrap_err().contains("has changed"));
    volume.create("0:other").unwrap();
    assert!(check(&[]).unwrap_err().contains("never created"));
}
