//! Judges images: recovers each, and looks for an order of the operations that explains what is
//! there.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use rayon::prelude::*;

use super::cache::{Act, Cache, Content, of_torn, set};
use super::record::{Begun, Event, Found, Kill, Places, Progress, Trace, What, lock};
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

    /// Whether an operation that returned this may have happened or not, as if it had not returned.
    fn is_unknown(&self, _result: &str) -> bool {
        false
    }

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
    /// The different moments at which the process may be killed while some store is not durable, if
    /// [they are searched](Search::kills).
    pub kills: Option<u64>,
}

/// Runs a function where it can use the code under test, outside the search: under a checker, in an
/// execution of its own. Called from several threads.
pub type Apart = fn(Box<dyn FnOnce() + Send>);

/// How many crashes in a row are looked at after the first: one during recovery, and one during the
/// recovery from that.
const CRASHES_DURING_RECOVERY: usize = 2;

/// What recovery makes of an image.
struct Recovered<S> {
    state: S,
    /// The images that a crash meanwhile may leave.
    during: Vec<(u128, Content)>,
    /// The images that a crash may leave once recovery has returned.
    after: Vec<(u128, Content)>,
}

type Outcome<S> = Result<Recovered<S>, String>;

/// Where recovery begins.
#[derive(Clone)]
struct Beginning {
    cache: Cache,
    /// The words that threads see, where the medium may have others.
    seen: Vec<(u32, u64)>,
    torn: BTreeSet<u32>,
}

impl Search {
    /// Recovers every image that was recorded, on all cores, and judges it.
    ///
    /// # Errors
    /// A report on an image that is not correct: what recovery made of it, what was required, and
    /// what the threads did until the crash.
    pub fn judge<S: Subject>(&self, subject: &Arc<S>, apart: Apart) -> Result<Judged, Wrong> {
        let found = lock(&self.found);
        let recover = |content: &Content| self.recover(subject, content, apart);
        let start = recover(&Content::default())
            .map_err(|why| Wrong::new(format!("the initial image: {why}")))?
            .state;
        let mut images: Vec<_> = found.images.iter().collect();
        images.sort_unstable_by_key(|(digest, _)| **digest);
        let recovered: Vec<Outcome<S::State>> = images
            .par_iter()
            .map(|(_, image)| recover(&image.content))
            .collect();

        let mut states: BTreeMap<u128, S::State> = BTreeMap::new();
        let mut further: BTreeMap<u128, (Content, S::State)> = BTreeMap::new();
        let unexplained = |state: &S::State, places: &Places| {
            let mut numbers = places.keys().copied();
            numbers.find(|&number| {
                let progress = &found.progresses[number as usize];
                !is_explained(&**subject, &start, state, progress)
            })
        };
        let wrong = |places: &Places, number: Option<u32>, content: &Content, why: &str| {
            let number = number.unwrap_or_else(|| *places.keys().next().expect("found somewhere"));
            let (trace, len) = &places[&number];
            let progress = &found.progresses[number as usize];
            self.report(&**subject, content, (trace, *len), progress, why)
        };
        for ((digest, image), recovered) in images.iter().zip(recovered) {
            let wrong = |number, why: &str| wrong(&image.found, number, &image.content, why);
            let Recovered {
                state,
                during,
                after,
            } = recovered.map_err(|why| wrong(None, &why))?;
            if let Some(number) = unexplained(&state, &image.found) {
                let why =
                    format!("recovery finds {state:?}, which no order of the operations explains");
                return Err(wrong(Some(number), &why));
            }
            for (child, content) in during.into_iter().chain(after) {
                further
                    .entry(child)
                    .or_insert_with(|| (content, state.clone()));
            }
            states.insert(**digest, state);
        }
        self.judge_kills(&found, subject, apart, &mut states, unexplained, wrong)?;

        let mut during_recovery = 0;
        for _ in 0..CRASHES_DURING_RECOVERY {
            let level: Vec<_> = std::mem::take(&mut further).into_iter().collect();
            let recovered: Vec<Option<Outcome<S::State>>> = level
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
                    let Recovered {
                        state,
                        during,
                        after,
                    } = recovered.map_err(wrong)?;
                    for (child, content) in during.into_iter().chain(after) {
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
        Ok(Judged {
            images: images.len() as u64,
            during_recovery,
            kills: self.kills.then_some(found.kills.len() as u64),
        })
    }

    /// Judges the moments at which the process may be killed while the machine goes on. The next
    /// process sees every store. What it finds must follow from an order of the operations, and
    /// must still be there after a power failure that follows: recovery makes durable what it
    /// relies on.
    ///
    /// `states` has the states of the images that are judged already.
    fn judge_kills<S: Subject>(
        &self,
        found: &Found,
        subject: &Arc<S>,
        apart: Apart,
        states: &mut BTreeMap<u128, S::State>,
        unexplained: impl Fn(&S::State, &Places) -> Option<u32>,
        wrong: impl Fn(&Places, Option<u32>, &Content, &str) -> Wrong,
    ) -> Result<(), Wrong> {
        let mut kills: Vec<_> = found.kills.iter().collect();
        kills.sort_unstable_by_key(|(digest, _)| **digest);
        let recovered: Vec<Outcome<S::State>> = kills
            .par_iter()
            .map(|(_, kill)| {
                let beginning = Beginning {
                    cache: kill.cache.clone(),
                    seen: kill.seen.clone(),
                    torn: BTreeSet::new(),
                };
                recover_apart(subject, beginning, apart)
            })
            .collect();
        for ((_, kill), recovered) in kills.iter().zip(recovered) {
            let seen = self.seen(kill);
            let wrong = |number, content: &Content, why: &str| {
                let why = format!("after the process was killed: {why}");
                wrong(&kill.found, number, content, &why)
            };
            let Recovered {
                state,
                during,
                after,
            } = recovered.map_err(|why| wrong(None, &seen, &why))?;
            if let Some(number) = unexplained(&state, &kill.found) {
                let why =
                    format!("recovery finds {state:?}, which no order of the operations explains");
                return Err(wrong(Some(number), &seen, &why));
            }
            let new: BTreeMap<u128, &Content> = during
                .iter()
                .chain(&after)
                .filter(|(digest, _)| !states.contains_key(digest))
                .map(|(digest, content)| (*digest, content))
                .collect();
            let outcomes: Vec<_> = new
                .into_par_iter()
                .map(|(digest, content)| (digest, content, self.recover(subject, content, apart)))
                .collect();
            for (digest, content, outcome) in outcomes {
                let why = |why| format!("then power fails: {why}");
                let outcome = outcome.map_err(|it| wrong(None, content, &why(it)))?;
                states.insert(digest, outcome.state);
            }
            for (digest, content) in &during {
                let later = &states[digest];
                if let Some(number) = unexplained(later, &kill.found) {
                    let why = format!(
                        "then power fails during recovery, and the next recovery finds {later:?}, \
                         which no order of the operations explains"
                    );
                    return Err(wrong(Some(number), content, &why));
                }
            }
            for (digest, content) in &after {
                let later = &states[digest];
                if *later != state {
                    let why = format!(
                        "recovery finds {state:?}; then power fails, and the next recovery finds \
                         {later:?}"
                    );
                    return Err(wrong(None, content, &why));
                }
            }
        }
        Ok(())
    }

    /// Returns what threads saw when the process was killed.
    fn seen(&self, kill: &Kill) -> Content {
        let mut difference = kill.cache.difference().clone();
        for &(word, value) in &kill.seen {
            set(&self.initial, &mut difference, word, value);
        }
        let torn = BTreeSet::new();
        Content { difference, torn }
    }

    fn recover<S: Subject>(
        &self,
        subject: &Arc<S>,
        image: &Content,
        apart: Apart,
    ) -> Outcome<S::State> {
        let beginning = Beginning {
            cache: Cache::new(self.initial.clone(), image.difference.clone()),
            seen: Vec::new(),
            torn: image.torn.clone(),
        };
        recover_apart(subject, beginning, apart)
    }

    fn bytes(&self, image: &Content) -> Vec<u8> {
        let words = Cache::new(self.initial.clone(), image.difference.clone()).medium();
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
                What::Act(Act::FlushDisk(_)) => "flushes the disk".to_owned(),
                What::Act(Act::FailedFlush(_)) => "fails to flush the disk".to_owned(),
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

fn recover_apart<S: Subject>(
    subject: &Arc<S>,
    beginning: Beginning,
    apart: Apart,
) -> Outcome<S::State> {
    let recovered = Arc::new(Mutex::new(None));
    let (into, subject) = (recovered.clone(), subject.clone());
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        apart(Box::new(move || {
            let result = recover_and_use(&*subject, beginning);
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

fn recover_and_use<S: Subject>(subject: &S, beginning: Beginning) -> Outcome<S::State> {
    let Beginning { cache, seen, torn } = beginning;
    let found = Arc::new(Mutex::new(Found::default()));
    let region = Simulated::make(cache, Method::Global, || 0, found.clone());
    {
        let mut state = lock(&region.state);
        state.torn.clone_from(&torn);
        for (word, value) in seen {
            state.visible[word as usize] = value;
        }
    }
    region.watch();
    let store = subject.recover(&region)?;
    let mut after = Vec::new();
    let end = region.unwatch();
    end.images(|digest, content| after.push((digest, content())));
    let state = subject.state(&store)?;
    let used = subject.go_on(&store);
    used.map_err(|why| format!("{why}, after recovery found {state:?}"))?;
    if let Some(word) = lock(&region.state).misread {
        let at = u64::from(word) * 8;
        return Err(format!(
            "the word at {at:#x} is read, although a crash may have torn it; found {state:?}"
        ));
    }
    let with_torn = |(digest, mut content): (u128, Content)| {
        let more = torn.difference(&content.torn).copied();
        let digest = more.fold(digest, |all, word| all ^ of_torn(word));
        content.torn.extend(&torn);
        (digest, content)
    };
    let during = std::mem::take(&mut lock(&found).images).into_iter();
    let during = during.map(|(digest, image)| with_torn((digest, image.content)));
    Ok(Recovered {
        state,
        during: during.collect(),
        after: after.into_iter().map(with_torn).collect(),
    })
}

/// Whether some order of the operations leads from `start` to `state`.
fn is_explained<S: Subject>(
    subject: &S,
    start: &S::State,
    state: &S::State,
    progress: &Progress,
) -> bool {
    let result = |it: &Begun| {
        let result = it.result.clone();
        result.filter(|result| !subject.is_unknown(result))
    };
    let ended = progress.iter().enumerate();
    let ended = ended.filter(|(_, it)| result(it).is_some());
    let ended = ended.fold(0_u64, |all, (at, _)| all | 1 << at);
    // The states to continue from, each with the operations that it has.
    let mut left = vec![(0_u64, start.clone())];
    while let Some((done, at)) = left.pop() {
        if done & ended == ended && at == *state {
            return true;
        }
        for (next, it) in progress.iter().enumerate() {
            if done & 1 << next != 0 || it.after & ended & !done != 0 {
                continue;
            }
            let after = subject.apply(&at, it.operation, result(it).as_deref());
            left.extend(after.map(|after| (done | 1 << next, after)));
        }
    }
    false
}
