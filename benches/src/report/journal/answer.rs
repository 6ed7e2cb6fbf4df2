//! The first screen of the page of `compare journal`.

use super::super::bars::Bar;
use super::super::page::Answer;
use super::super::text::{grouped, millis, number, times};
use crate::journal::Outcome;
use crate::journal::devices::DISK;
use crate::journal::rows::{COMMIT, Row};
use crate::measure::thread_count;

/// Compares the contestants on a disk, or else on the first device, with the most threads and the
/// shortest think time.
pub(super) fn answer(outcome: &Outcome) -> Answer {
    let plan = &outcome.plan;
    let is_small = |it: &&Row| it.workload == COMMIT;
    let of_device = |device: &str| {
        let rows = outcome.rows.iter().filter(is_small);
        rows.filter(|it| it.device == device).collect::<Vec<_>>()
    };
    let devices = [DISK].into_iter().chain(plan.devices.iter().copied());
    let rows = devices.map(of_device).find(|it| !it.is_empty());
    let rows = rows.unwrap_or_default();
    let Some(threads) = rows.iter().map(|it| it.threads).max() else {
        return Answer {
            said: "No small commits were measured.".to_owned(),
            ..Answer::default()
        };
    };
    let think = rows
        .iter()
        .filter_map(|it| it.think)
        .fold(f64::MAX, f64::min);
    let with = |threads: usize| {
        let shown = rows
            .iter()
            .filter(|it| it.threads == threads && it.think == Some(think));
        let mut shown: Vec<&Row> = shown.copied().collect();
        shown.sort_by(|a, b| b.commits_per_s.total_cmp(&a.commits_per_s));
        shown
    };
    let shown = with(threads);
    let is_ours = |row: &Row| row.version.is_none();
    let best = shown[0];
    let rival = shown.iter().find(|it| is_ours(it) != is_ours(best));
    let compared = |other: &Row, best: &Row| {
        let ratio = times(best.commits_per_s / other.commits_per_s);
        format!("**{ratio}** those of `{}`", other.contestant)
    };
    let device = best.device;
    let rival = rival.map(|it| {
        let whose = if is_ours(it) {
            "of Spanlock"
        } else {
            "of the other projects"
        };
        format!(", {}, the fastest {whose}", compared(it, best))
    });
    let alone = with(1);
    let fastest = alone.first().filter(|_| threads > 1);
    let own = alone.iter().find(|it| it.contestant == best.contestant);
    let alone = fastest.zip(own).map(
        |(fastest, own)| match own.contestant == fastest.contestant {
            true => "With one thread, it is the fastest as well. ".to_owned(),
            false => format!(
                "It costs: with one thread, it makes **{}** the commits of `{}`, the fastest. ",
                times(own.commits_per_s / fastest.commits_per_s),
                fastest.contestant
            ),
        },
    );
    let has_blocks = |row: &Row| {
        let of = plan.contestants.iter().find(|it| it.name == row.contestant);
        is_ours(row) && of.is_some_and(|it| it.has_blocks())
    };
    let fastest_peer = shown.iter().find(|it| !is_ours(it));
    let blocks = shown
        .iter()
        .filter(|it| has_blocks(it))
        .map(|it| it.commits_per_s);
    let ends = blocks.clone().reduce(f64::min).zip(blocks.reduce(f64::max));
    let blocks = fastest_peer.zip(ends).map(|(peer, (low, high))| {
        let is_slower = high < peer.commits_per_s;
        let [low, high] = [low, high].map(|it| format!("{:.2}", it / peer.commits_per_s));
        let reach = if low == high {
            low
        } else {
            format!("{low} to {high}")
        };
        let costs = if is_slower { "It costs: the" } else { "The" };
        format!(
            "{costs} block journals (JBD2's format) reach **{reach}** of `{}`. ",
            peer.contestant
        )
    });
    let latency = format!(
        "A commit takes {} in the median, as long as **{} flushes** of the device, and {} at the 99th percentile.",
        millis(best.p50_us),
        number(best.p50_flushes(), 1),
        millis(best.p99_us)
    );
    Answer {
        said: format!(
            "`{}` wins: on `{device}` with {}, it makes **{} durable commits/s**{}.",
            best.contestant,
            thread_count(threads),
            grouped(best.commits_per_s.round() as u64),
            rival.unwrap_or_default()
        ),
        cost: alone.unwrap_or_default() + &blocks.unwrap_or_default() + &latency,
        caption: format!(
            "Durable commits per second on {device} with {}",
            thread_count(threads)
        ),
        bars: shown
            .iter()
            .map(|it| {
                let told = grouped(it.commits_per_s.round() as u64);
                Bar::new(is_ours(it), it.contestant, it.commits_per_s, told)
            })
            .collect(),
        ..Answer::default()
    }
}
