//! The check of overwritten pages: which writes a page may show, from what the child told.
//!
//! Of each write the place of two lines is known, before it began and after it returned; the second is
//! missing if the kill came first. So one write is *later* than another if it began after the other had
//! returned; else they overlapped, and either may have been the last. Hence:
//!
//! - Every page shows, byte for byte, one write of that page, or what it held before.
//! - No page shows a write if a later one of that page *took place*: returned, or is shown by some page.
//!
//! The second says at once that what returned is not lost, and that a write of several pages that did not
//! return is there in all of them or in none.

use std::collections::{BTreeMap, HashMap};

use spanlock_benches::killed::{HOT_FILES, HOT_PAGES, Line, Overwrite, page_of};

/// A page of a file, by the file's name.
pub(crate) type Page = (String, u64);

/// The seed of the write that each page shows; 0 if it was never written.
pub(crate) type Shown = BTreeMap<Page, u64>;

/// Nothing is written yet.
pub(crate) fn blank() -> Shown {
    let of = |file: &'static str| (0..HOT_PAGES).map(move |page| ((file.to_owned(), page), 0));
    HOT_FILES.into_iter().flat_map(of).collect()
}

/// A write, with the places of its lines; what was there before began and returned at 0.
struct Write {
    overwrite: Overwrite,
    began: usize,
    returned: Option<usize>,
}

impl Write {
    /// Whether it began after `other` had returned.
    fn is_later(&self, other: &Write) -> bool {
        other.returned.is_some_and(|returned| self.began > returned)
    }
}

/// All writes that the child told.
pub(crate) struct History {
    writes: Vec<Write>,
    /// Those that cover a page, by their place in the list.
    of_page: BTreeMap<Page, Vec<usize>>,
}

impl History {
    /// From what the pages held, and what the child told then.
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
                    assert!(other.is_none(), "a seed twice");
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

    /// How many writes returned, and how many began and did not.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let all = self.writes.iter().filter(|write| write.began > 0);
        let (returned, under_way): (Vec<_>, Vec<_>) = all.partition(|it| it.returned.is_some());
        (returned.len(), under_way.len())
    }

    /// Checks all pages; `read` returns one. Returns what they show.
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
                        "{file}, page {page}: the write of {pages:?} with seed {seed} returned, and is lost"
                    ),
                    None => format!(
                        "{file}, page {page}: the write of {pages:?} with seed {seed} is there in part"
                    ),
                });
            }
        }
        let seed =
            |(page, write): (&Page, usize)| (page.clone(), self.writes[write].overwrite.seed);
        Ok(shown.into_iter().map(seed).collect())
    }

    /// The one of `writes` that `content` is.
    fn shown_by(&self, page: &Page, writes: &[usize], content: &[u8]) -> Result<usize, String> {
        let (file, number) = page;
        let seed = content.first_chunk().copied().map_or(0, u64::from_le_bytes);
        let write = writes
            .iter()
            .find(|&&it| self.writes[it].overwrite.seed == seed)
            .ok_or_else(|| format!("{file}, page {number}: holds what nobody wrote there"))?;
        if content == page_of(seed, *number) {
            Ok(*write)
        } else {
            Err(format!(
                "{file}, page {number}: the page of seed {seed} is there in part"
            ))
        }
    }
}

/// The check can fail, and does not where it must not.
#[test]
fn the_check_of_pages_finds_what_is_wrong() {
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

    // One after the other: the later one, wherever it returned.
    let mut told = vec![writing(1, 0..1), Line::Wrote(1), writing(3, 0..1)];
    assert!(check(&told, [1, 0]).is_ok() && check(&told, [3, 0]).is_ok());
    says(&told, [0, 0], "seed 1 returned, and is lost");
    says(&told, [5, 0], "nobody wrote");
    says(&told, [3, 3], "nobody wrote");
    told.push(Line::Wrote(3));
    assert!(check(&told, [3, 0]).is_ok());
    says(&told, [1, 0], "seed 3 returned, and is lost");

    // At the same time: either.
    let mut told = vec![writing(1, 0..1), writing(3, 0..1), Line::Wrote(3)];
    told.push(Line::Wrote(1));
    assert!(check(&told, [1, 0]).is_ok() && check(&told, [3, 0]).is_ok());
    says(&told, [0, 0], "is lost");

    // Of two pages, under way: both or none.
    let told = [writing(1, 0..1), Line::Wrote(1), writing(3, 0..2)];
    assert!(check(&told, [1, 0]).is_ok() && check(&told, [3, 3]).is_ok());
    says(
        &told,
        [3, 0],
        "page 1: the write of 0..2 with seed 3 is there in part",
    );
    says(
        &told,
        [1, 3],
        "page 0: the write of 0..2 with seed 3 is there in part",
    );
    // Unless another overlapped it.
    let told = [writing(3, 0..2), writing(5, 1..2), Line::Wrote(5)];
    assert!(check(&told, [3, 5]).is_ok() && check(&told, [3, 3]).is_ok());
    says(&told, [3, 0], "page 1");

    // A page that is torn.
    let torn = History::new(&blank(), &[writing(1, 0..1)]).check(|(file, page)| {
        let mut content = page_of(u64::from(file == HOT_FILES[0] && *page == 0), *page);
        content[4000..].fill(0);
        content
    });
    assert!(torn.unwrap_err().contains("seed 1 is there in part"));
}
