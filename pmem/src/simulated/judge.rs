//! Judges images: recovers each, and looks for an order of the operations that explains what is
//! there.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use rayon::prelude::*;

use super::cache::{Act, Cache, Content, of_torn};
use super::record::{Event, Found, Image, Progress, Trace, What, lock};
use super::{Method, Search, Simulated};

/// A store under test: its recovery, and a model of its operations.
pub trait Subject: Send + Sync + 'static {
    /// The store.
    type Store;
    /// What a store contains, as the model sees it.
    type State: Clone + PartialEq + Debug + Send + Sync + 'static;

    /// Opens the store that `region` contains, which is what recovery after a crash does.
    ///
    /// # Errors
    /// Why it cannot be opened.
    fn recover(&self, region: &Arc<Simulated>) -> Result<Self::Store, String>;

    /// Returns what the store contains, and checks its invariants. Must not change the medium.
    ///
    /// # Errors
    /// The invariant that does not hold.
    fn state(&self, store: &Self::Store) -> Result<Self::State, String>;

    /// Uses the store further, in a way that depends on its free space and on all that recovery has
    /// built.
    ///
    /// # Errors
    /// What does not work.
    fn go_on(&self, store: &Self::Store) -> Result<(), String>;

    /// Returns the state after an operation. `result` is what the operation returned, or `None` if
    /// it has not returned. Returns `None` if the operation cannot have this result in this state.
    fn apply(
        &self,
        state: &Self::State,
        operation: u32,
        result: Option<&str>,
    ) -> Option<Self::State>;

    /// Names an operation.
    fn name(&self, operation: u32) -> String;
}

/// What a search has judged, and found correct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// The different images that a crash of the runs may leave.
    pub images: u64,
    /// The different images that a crash of a recovery, or of the recovery after that, may leave.
    pub during_recovery: u64,
    /// A checksum of the set of images of the runs.
    pub checksum: u64,
}

/// Runs a function where it can use the code under test, outside the search: under a checker, in an
/// execution of its own. Called from several threads.
pub type Apart = fn(Box<dyn FnOnce() + Send>);

/// How many crashes in a row are looked at after the first: one during recovery, and one during the
/// recovery from that.
const CRASHES_DURING_RECOVERY: usize = 2;

/// What recovery makes of an image: the state, and the images that a crash meanwhile may leave.
type Recovered<S> = Result<(S, Vec<(u128, Content)>), String>;

impl Search {
    /// Recovers every image that was recorded, on all cores, and judges it.
    ///
    /// # Errors
    /// A report on an image that is not correct: what recovery made of it, what was required, and
    /// what the threads did until the crash.
    pub fn judge<S: Subject>(&self, subject: &Arc<S>, apart: Apart) -> Result<Judged, Wrong> {
        let found = lock(&self.found);
        let recover = |content: &Content| self.recover(subject, content, apart);
        let (start, _) = recover(&Content::default())
            .map_err(|why| Wrong::new(format!("the initial image: {why}")))?;
        let mut images: Vec<_> = found.images.iter().collect();
        images.sort_unstable_by_key(|(digest, _)| **digest);
        let recovered: Vec<Recovered<S::State>> = images
            .par_iter()
            .map(|(_, image)| recover(&image.content))
            .collect();

        let mut states: BTreeMap<u128, S::State> = BTreeMap::new();
        let mut further: BTreeMap<u128, (Content, S::State)> = BTreeMap::new();
        for ((digest, image), recovered) in images.iter().zip(recovered) {
            let wrong = |progress: u32, why: &str| {
                let (trace, len) = &image.found[&progress];
                let progress = &found.progresses[progress as usize];
                self.report(&**subject, &image.content, (trace, *len), progress, why)
            };
            let any = *image.found.keys().next().expect("found somewhere");
            let (state, children) = recovered.map_err(|why| wrong(any, &why))?;
            for &number in image.found.keys() {
                let progress = &found.progresses[number as usize];
                if !is_explained(&**subject, &start, &state, progress) {
                    let why = format!(
                        "recovery finds {state:?}, which no order of the operations explains"
                    );
                    return Err(wrong(number, &why));
                }
            }
            for (child, content) in children {
                further
                    .entry(child)
                    .or_insert_with(|| (content, state.clone()));
            }
            states.insert(**digest, state);
        }

        let mut during_recovery = 0;
        for _ in 0..CRASHES_DURING_RECOVERY {
            let level: Vec<_> = std::mem::take(&mut further).into_iter().collect();
            let recovered: Vec<Option<Recovered<S::State>>> = level
                .par_iter()
                .map(|(digest, (image, _))| (!states.contains_key(digest)).then(|| recover(image)))
                .collect();
            for ((digest, (image, before)), recovered) in level.into_iter().zip(recovered) {
                let wrong = |why: String| {
                    let text = format!("after a crash during recovery: {why}");
                    Wrong {
                        text,
                        image: Some(self.bytes(&image)),
                    }
                };
                if let Some(recovered) = recovered {
                    let (state, children) = recovered.map_err(wrong)?;
                    for (child, content) in children {
                        further
                            .entry(child)
                            .or_insert_with(|| (content, state.clone()));
                    }
                    states.insert(digest, state);
                    during_recovery += 1;
                }
                let state = &states[&digest];
                if *state != before {
                    let why = format!("recovery finds {state:?}, but before it found {before:?}");
                    return Err(wrong(why));
                }
            }
        }
        let all = images.iter().fold(0, |all, (digest, _)| all ^ **digest);
        Ok(Judged {
            images: images.len() as u64,
            during_recovery,
            checksum: all as u64,
        })
    }

    fn recover<S: Subject>(
        &self,
        subject: &Arc<S>,
        image: &Content,
        apart: Apart,
    ) -> Recovered<S::State> {
        let recovered = Arc::new(Mutex::new(None));
        let (into, subject) = (recovered.clone(), subject.clone());
        let cache = Cache::new(self.initial.clone(), image.difference.clone());
        let torn = image.torn.clone();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            apart(Box::new(move || {
                let result = recover_and_use(&*subject, cache, torn);
                *lock(&into) = Some(result);
            }));
        }));
        let panicked = |panic: Box<dyn Any + Send>| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied());
            format!("recovery panics: {}", text.unwrap_or("unknown"))
        };
        outcome.map_err(panicked)?;
        lock(&recovered).take().expect("`apart` calls the function")
    }

    fn bytes(&self, image: &Content) -> Vec<u8> {
        let words = Cache::new(self.initial.clone(), image.difference.clone()).visible();
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    fn report<S: Subject>(
        &self,
        subject: &S,
        image: &Content,
        (trace, len): (&Trace, usize),
        progress: &Progress,
        why: &str,
    ) -> Wrong {
        let mut text = format!("{why}\noperations that had begun when the machine crashed:\n");
        for it in progress {
            let result = match &it.result {
                Some(result) => format!("returned {result}"),
                None => "had not returned".to_owned(),
            };
            let name = subject.name(it.operation);
            _ = writeln!(text, "  T{} {name}: {result}", it.thread);
        }
        text += "what the threads did until then (after a store: whether this image has it):\n";
        let value = |word: u32| {
            let initial = self.initial[word as usize];
            image.difference.get(&word).copied().unwrap_or(initial)
        };
        for event in &lock(trace)[..len] {
            let Event {
                thread,
                place,
                what,
                ..
            } = event;
            let what = match what {
                What::Begin { operation } => format!("begins {}", subject.name(*operation)),
                What::End { result, .. } => format!("returns {result}"),
                What::Act(Act::Flush(units)) => format!("flushes {} units", units.len()),
                What::Act(Act::Fence) => "fences".to_owned(),
                What::Act(Act::FlushAll) => "flushes the disk".to_owned(),
                What::Act(Act::Store(stores)) => {
                    for (word, new) in stores.iter().flat_map(|(_, words)| words.iter()) {
                        let there = match image.torn.contains(word) {
                            true => "torn",
                            false => ["lost", "there"][usize::from(value(*word) == *new)],
                        };
                        let at = u64::from(*word) * 8;
                        _ = writeln!(
                            text,
                            "  T{thread} stores {new:#018x} at {at:#x}  {there}  {place}"
                        );
                    }
                    continue;
                }
            };
            _ = writeln!(text, "  T{thread} {what}  {place}");
        }
        Wrong {
            text,
            image: Some(self.bytes(image)),
        }
    }
}

/// An image that is not correct.
#[derive(Clone, Debug)]
pub struct Wrong {
    /// The report, of several lines.
    pub text: String,
    /// The bytes of the image.
    pub image: Option<Vec<u8>>,
}

impl Wrong {
    fn new(text: String) -> Self {
        Wrong { text, image: None }
    }
}

fn recover_and_use<S: Subject>(
    subject: &S,
    cache: Cache,
    torn: BTreeSet<u32>,
) -> Recovered<S::State> {
    let found = Arc::new(Mutex::new(Found::default()));
    let region = Simulated::make(cache, Method::Global, || 0, found.clone());
    lock(&region.state).torn.clone_from(&torn);
    region.watch();
    let store = subject.recover(&region)?;
    region.unwatch();
    let state = subject.state(&store)?;
    let used = subject.go_on(&store);
    used.map_err(|why| format!("{why}, after recovery found {state:?}"))?;
    if let Some(word) = lock(&region.state).misread {
        let at = u64::from(word) * 8;
        return Err(format!(
            "the word at {at:#x} is read, although a crash may have torn it; found {state:?}"
        ));
    }
    let images = std::mem::take(&mut lock(&found).images).into_iter();
    let with_torn = |(digest, Image { mut content, .. }): (u128, Image)| {
        let more = torn.difference(&content.torn).copied();
        let digest = more.fold(digest, |all, word| all ^ of_torn(word));
        content.torn.extend(&torn);
        (digest, content)
    };
    let images = images.map(with_torn);
    Ok((state, images.collect()))
}

/// Whether some order of the operations leads from `start` to `state`.
fn is_explained<S: Subject>(
    subject: &S,
    start: &S::State,
    state: &S::State,
    progress: &Progress,
) -> bool {
    let ended = progress
        .iter()
        .enumerate()
        .filter(|(_, it)| it.result.is_some());
    let ended = ended.fold(0_u64, |all, (at, _)| all | 1 << at);
    // The states to continue from, each with the operations that it has.
    let mut left = vec![(0_u64, start.clone())];
    while let Some((done, at)) = left.pop() {
        if done & ended == ended && at == *state {
            return true;
        }
        for (next, it) in progress.iter().enumerate() {
            if done & 1 << next != 0 || it.after & !done != 0 {
                continue;
            }
            let after = subject.apply(&at, it.operation, it.result.as_deref());
            left.extend(after.map(|after| (done | 1 << next, after)));
        }
    }
    false
}
