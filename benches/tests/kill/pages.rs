//! The check of overwritten pages: from the child's output, it derives which write each page may
//! show.
//!
//! The child reports each write before it begins and after it returns; a kill may suppress the
//! second line. Therefore a write is *later* than another if it began after the other had returned.
//! Otherwise they overlap, and either may have been last. Two rules follow:
//!
//! - Every page shows, byte for byte, one write to that page, or its earlier content.
//! - No page shows a write if a later write to that page *took place*, that is, it returned or some
//!   page shows it.
//!
//! The second rule implies that writes that returned are not lost. It also implies that a write of
//! several pages that did not return is present in all of them or in none.

use std::collections::{BTreeMap, HashMap};

use spanlock_benches::killed::{HOT_FILES, HOT_PAGES, Line, Overwrite, page_of};

/// A page of a file, identified by the file's name.
pub(crate) type Page = (String, u64);

/// The seed of the write that each page shows; 0 if it was never written.
pub(crate) type Shown = BTreeMap<Page, u64>;

/// Returns the state before any write.
pub(crate) fn blank() -> Shown {
    let of = |file: &'static str| (0..HOT_PAGES).map(move |page| ((file.to_owned(), page), 0));
    HOT_FILES.into_iter().flat_map(of).collect()
}

/// A write with the positions of its two lines. Earlier content counts as a write that began and
/// returned at 0.
struct Write {
    overwrite: Overwrite,
    began: usize,
    returned: Option<usize>,
}

impl Write {
    /// Returns whether this write began after `other` had returned.
    fn is_later(&self, other: &Write) -> bool {
        other.returned.is_some_and(|returned| self.began > returned)
    }
}

/// All writes that the child reported.
pub(crate) struct History {
    writes: Vec<Write>,
    /// For each page, the indices of the writes that cover it.
    of_page: BTreeMap<Page, Vec<usize>>,
}

impl History {
    /// Creates the history from the earlier content of the pages and the child's output.
    pub(crate) fn new(before: &Shown, told: &[Line]) -> History {
        let initial = before.iter().map(|((file, page), &seed)| Write {
            overwrite: Overwrite {
                seed,
                pages: *page..page + 1,
                file: file.clone(),
            },
            began: 0,
            returned: Some(0),
        });
        let mut writes: Vec<Write> = initial.collect();
        let mut by_seed = HashMap::new();
        for (at, line) in (1..).zip(told) {
            match line {
                Line::Writing(overwrite) => {
                    let other = by_seed.insert(overwrite.seed, writes.len());
                    assert!(other.is_none(), "a seed is used twice");
                    let overwrite = overwrite.clone();
                    writes.push(Write {
                        overwrite,
                        began: at,
                        returned: None,
                    });
                }
                Line::Wrote(seed) => writes[by_seed[seed]].returned = Some(at),
                _ => {}
            }
        }
        let mut of_page: BTreeMap<Page, Vec<usize>> = BTreeMap::new();
        for (at, Write { overwrite, .. }) in writes.iter().enumerate() {
            for page in overwrite.pages.clone() {
                let page = (overwrite.file.clone(), page);
                of_page.entry(page).or_default().push(at);
            }
        }
        History { writes, of_page }
    }

    /// Returns how many writes returned, and how many began without returning.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let all = self.writes.iter().filter(|write| write.began > 0);
        let (returned, under_way): (Vec<_>, Vec<_>) = all.partition(|it| it.returned.is_some());
        (returned.len(), under_way.len())
    }

    /// Checks all pages, which `read` returns. Returns the seeds that they show.
    pub(crate) fn check(&self, read: impl Fn(&Page) -> Vec<u8>) -> Result<Shown, String> {
        let mut shown = BTreeMap::new();
        for (page, writes) in &self.of_page {
            shown.insert(page, self.shown_by(page, writes, &read(page))?);
        }
        let mut took_place: Vec<bool> =
            self.writes.iter().map(|it| it.returned.is_some()).collect();
        for &write in shown.values() {
            took_place[write] = true;
        }
        for ((file, page), &write) in &shown {
            let later = self.of_page[&(file.clone(), *page)].iter().find(|&&other| {
                took_place[other] && self.writes[other].is_later(&self.writes[write])
            });
            if let Some(&later) = later {
                let Overwrite { seed, pages, .. } = &self.writes[later].overwrite;
                return Err(match self.writes[later].returned {
                    Some(_) => format!(
                        "{file}, page {page}: the write of {pages:?} with seed {seed} returned but is lost"
                    ),
                    None => format!(
                        "{file}, page {page}: the write of {pages:?} with seed {seed} is only partly present"
                    ),
                });
            }
        }
        let seed =
            |(page, write): (&Page, usize)| (page.clone(), self.writes[write].overwrite.seed);
        Ok(shown.into_iter().map(seed).collect())
    }

    /// Returns which of `writes` has produced `content`.
    fn shown_by(&self, page: &Page, writes: &[usize], content: &[u8]) -> Result<usize, String> {
        let (file, number) = page;
        let seed = content.first_chunk().copied().map_or(0, u64::from_le_bytes);
        let write = writes
            .iter()
            .find(|&&it| self.writes[it].overwrite.seed == seed)
            .ok_or_else(|| {
                format!("{file}, page {number}: holds data that was never written there")
            })?;
        if content == page_of(seed, *number) {
            Ok(*write)
        } else {
            Err(format!(
                "{file}, page {number}: the page of seed {seed} is only partly present"
            ))
        }
    }
}

/// The check detects damage and accepts every valid state.
#[test]
fn the_check_of_pages_detects_damage() {
    let writing = |seed, pages| {
        let file = HOT_FILES[0].to_owned();
        Line::Writing(Overwrite { seed, pages, file })
    };
    let check = |told: &[Line], shown: [u64; 2]| {
        let read = |(file, page): &Page| {
            let is_first = file == HOT_FILES[0] && *page < 2;
            let seed = if is_first { shown[*page as usize] } else { 0 };
            page_of(seed, *page)
        };
        History::new(&blank(), told).check(read).map(|_| ())
    };
    let says = |told: &[Line], shown, wanted: &str| {
        let error = check(told, shown).unwrap_err();
        assert!(error.contains(wanted), "{error}");
    };

    // Sequential writes: the page may show the later one once that has begun, and must show it once
    // it has returned.
    let mut told = vec![writing(1, 0..1), Line::Wrote(1), writing(3, 0..1)];
    assert!(check(&told, [1, 0]).is_ok() && check(&told, [3, 0]).is_ok());
    says(&told, [0, 0], "seed 1 returned but is lost");
    says(&told, [5, 0], "never written");
    says(&told, [3, 3], "never written");
    told.push(Line::Wrote(3));
    assert!(check(&told, [3, 0]).is_ok());
    says(&told, [1, 0], "seed 3 returned but is lost");

    // Concurrent writes: either may be shown.
    let mut told = vec![writing(1, 0..1), writing(3, 0..1), Line::Wrote(3)];
    told.push(Line::Wrote(1));
    assert!(check(&told, [1, 0]).is_ok() && check(&told, [3, 0]).is_ok());
    says(&told, [0, 0], "is lost");

    // An unfinished write of two pages: both or neither.
    let told = [writing(1, 0..1), Line::Wrote(1), writing(3, 0..2)];
    assert!(check(&told, [1, 0]).is_ok() && check(&told, [3, 3]).is_ok());
    says(
        &told,
        [3, 0],
        "page 1: the write of 0..2 with seed 3 is only partly present",
    );
    says(
        &told,
        [1, 3],
        "page 0: the write of 0..2 with seed 3 is only partly present",
    );
    // Unless another write overlaps it.
    let told = [writing(3, 0..2), writing(5, 1..2), Line::Wrote(5)];
    assert!(check(&told, [3, 5]).is_ok() && check(&told, [3, 3]).is_ok());
    says(&told, [3, 0], "page 1");

    // A torn page.
    let torn = History::new(&blank(), &[writing(1, 0..1)]).check(|(file, page)| {
        let mut content = page_of(u64::from(file == HOT_FILES[0] && *page == 0), *page);
        content[4000..].fill(0);
        content
    });
    assert!(torn.unwrap_err().contains("seed 1 is only partly present"));
}
