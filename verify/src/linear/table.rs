//! A history that has no explanation, for people: a column a thread, a line an event.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::history::{Answer, End, History};
use super::judge::{Unexplained, closed, step};
use super::scenario::Op;
use super::spec::{Rules, State};

/// Width of a thread's column.
const COLUMN: usize = 28;

/// The order of events that has no explanation, with who may have held what after each; then what is wrong.
pub fn table(history: &History, found: &Unexplained, rules: Rules) -> String {
    let threads = history.0.len();
    let mut told = head(threads) + "held, by the specification\n";
    let mut at = vec![0; threads];
    let mut states = BTreeSet::from([State::default()]);
    for (i, &thread) in found.order.iter().enumerate() {
        let end = history.0[thread][at[thread]].end;
        at[thread] += 1;
        let next = step(&states, thread, end, rules);
        let held = match next.is_empty() {
            true => "no explanation".to_owned(),
            false => held(&next),
        };
        line(&mut told, threads, thread, &text(end), &held);
        if next.is_empty() {
            told += &why(&closed(&states, rules), thread, end, i);
        }
        states = next;
    }
    told
}

/// The calls and answers of an execution that did not come to its end, as they came.
pub fn unfinished(notes: &[(usize, Op, Option<Answer>)]) -> String {
    let threads = notes.iter().map(|note| note.0 + 1).max().unwrap_or(0);
    let mut told = head(threads).trim_end().to_owned() + "\n";
    for &(thread, op, answer) in notes {
        let text = match answer {
            None => format!("{op} …"),
            Some(answer) => answered(op, answer),
        };
        line(&mut told, threads, thread, &text, "");
    }
    told
}

fn head(threads: usize) -> String {
    let mut told = String::new();
    for thread in 0..threads {
        let _ = write!(told, "{:<COLUMN$}", format!("T{thread}"));
    }
    told
}

fn line(told: &mut String, threads: usize, thread: usize, text: &str, held: &str) {
    let mut line = String::new();
    for column in 0..threads {
        let text = if column == thread { text } else { "" };
        let _ = write!(line, "{text:<COLUMN$}");
    }
    *told += (line + held).trim_end();
    told.push('\n');
}

fn text(end: End) -> String {
    match end {
        End::Call(op, _) => format!("{op} …"),
        End::Return(op, answer) => answered(op, answer),
    }
}

fn answered(op: Op, answer: Answer) -> String {
    match answer {
        Answer::Done => format!("{op}: done"),
        Answer::Busy => format!("{op}: busy"),
    }
}

/// Who may hold what. (What has been called may take effect later: the states before that come first, and are told alone.)
fn held(states: &BTreeSet<State>) -> String {
    let each: BTreeSet<String> = states.iter().map(State::held).collect();
    let each = each.into_iter().map(|held| match &*held {
        "" => "nothing".to_owned(),
        _ => held,
    });
    each.collect::<Vec<_>>().join(" or ")
}

fn why(before: &BTreeSet<State>, thread: usize, end: End, explained: usize) -> String {
    let End::Return(op, answer) = end else {
        return "a call that nothing explains\n".to_owned();
    };
    let mut told = format!("the {explained} events before have explanations; after them:\n");
    let each: BTreeSet<(String, String)> = before
        .iter()
        .map(|state| (state.held(), state.open()))
        .collect();
    for (held, open) in each {
        let or_nothing = |text: String| {
            if text.is_empty() {
                "nothing".to_owned()
            } else {
                text
            }
        };
        let _ = writeln!(
            told,
            "  held: {}; called, without effect so far: {}",
            or_nothing(held),
            or_nothing(open)
        );
    }
    let (answer, what) = match answer {
        Answer::Done => ("done", "something that is held is in its way"),
        Answer::Busy => ("busy", "nothing that counts is in its way"),
    };
    told + &format!("in none of these can T{thread}'s {op} be {answer}: {what}\n")
}
