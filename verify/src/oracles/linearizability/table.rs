//! Formats a history without explanation as a table: one column per thread, one line per event.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::history::{End, text};
use super::judge::{HistoryOf, States, closed, step};
use super::model::Model;

/// Width of a thread's column.
const COLUMN: usize = 28;

/// Formats an order of events that has no explanation: the possible states after each event, and
/// then the answer that no state explains.
pub fn table<M: Model>(model: &M, history: &HistoryOf<M>, order: &[usize]) -> String {
    let threads = history.0.len();
    let mut told = head(threads) + "held, by the specification\n";
    let mut at = vec![0; threads];
    let mut states = BTreeSet::from([model.initial()]);
    for (i, &thread) in order.iter().enumerate() {
        let end = history.0[thread][at[thread]].end;
        at[thread] += 1;
        let next = step(model, &states, thread, end);
        let held = match next.is_empty() {
            true => "no explanation".to_owned(),
            false => held(model, &next),
        };
        let text = match end {
            End::Call(op, _) => text(op, None::<M::Answer>),
            End::Return(op, answer) => text(op, Some(answer)),
        };
        line(&mut told, threads, thread, &text, &held);
        if let (true, End::Return(op, answer)) = (next.is_empty(), end) {
            told += &why(model, &closed(model, &states), i);
            let _ = writeln!(
                told,
                "in none of these states can T{thread}'s {op} be {answer}: {}",
                model.unexplained_text(op, answer)
            );
        }
        states = next;
    }
    told
}

/// Formats the calls and answers of an execution that did not end, in order.
pub fn unfinished(events: &[(usize, String)]) -> String {
    let threads = events.iter().map(|(thread, _)| thread + 1).max();
    let threads = threads.unwrap_or(0);
    let mut told = head(threads).trim_end().to_owned() + "\n";
    for (thread, text) in events {
        line(&mut told, threads, *thread, text, "");
    }
    told
}

fn head(threads: usize) -> String {
    let columns = (0..threads).map(|thread| format!("{:<COLUMN$}", format!("T{thread}")));
    columns.collect()
}

fn line(told: &mut String, threads: usize, thread: usize, text: &str, held: &str) {
    let text_in = |column| if column == thread { text } else { "" };
    let columns = (0..threads).map(|column| format!("{:<COLUMN$}", text_in(column)));
    *told += (columns.collect::<String>() + held).trim_end();
    told.push('\n');
}

fn or_nothing(text: String) -> String {
    match text.is_empty() {
        true => "nothing".to_owned(),
        false => text,
    }
}

/// Describes the possible states, before called operations take further effect.
fn held<M: Model>(model: &M, states: &States<M>) -> String {
    let each: BTreeSet<String> = states.iter().map(|it| model.state_text(it)).collect();
    let each: Vec<String> = each.into_iter().map(or_nothing).collect();
    each.join(" or ")
}

fn why<M: Model>(model: &M, before: &States<M>, explained: usize) -> String {
    let state = |state: &M::State| {
        let (held, open) = (model.state_text(state), model.open_text(state));
        let (held, open) = (or_nothing(held), or_nothing(open));
        format!("  held: {held}; called, without effect so far: {open}\n")
    };
    let each: BTreeSet<String> = before.iter().map(state).collect();
    let head = format!("the {explained} events before have explanations; after them:\n");
    head + &String::from_iter(each)
}
