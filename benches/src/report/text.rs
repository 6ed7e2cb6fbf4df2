//! Numbers as text.

/// Marks a row in which one of our locks is slower, and whatever else should not be overlooked.
pub const LOSS_MARK: &str = "▼";

/// Formats a number with a space between groups of three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Formats nanoseconds with a suitable unit and three digits.
pub(super) fn duration(ns: u64) -> String {
    match ns as f64 {
        ns if ns < 1e3 => format!("{ns} ns"),
        ns if ns < 999.5e3 => format!("{} µs", three_digits(ns / 1e3)),
        ns if ns < 999.5e6 => format!("{} ms", three_digits(ns / 1e6)),
        ns => format!("{} s", three_digits(ns / 1e9)),
    }
}

/// Formats a number of at least 1 with three digits.
fn three_digits(number: f64) -> String {
    match number {
        it if it < 9.995 => format!("{it:.2}"),
        it if it < 99.95 => format!("{it:.1}"),
        it => grouped(it.round() as u64),
    }
}

/// Formats a number with three digits, in thousands or millions if it is large.
pub(super) fn amount(number: f64) -> String {
    match number {
        it if it < 1e3 => three_digits(it),
        it if it < 999.5e3 => format!("{} k", three_digits(it / 1e3)),
        it => format!("{} M", three_digits(it / 1e6)),
    }
}

/// Compares with another throughput: "1.26 times the throughput of", or "the same throughput as".
pub(super) fn throughput_of(ratio: f64) -> String {
    match is_tie(ratio) {
        true => "the **same** throughput as".to_owned(),
        false => format!("**{}** the throughput of", times(ratio)),
    }
}

/// Whether a ratio is shown as 1.00.
pub(super) fn is_tie(ratio: f64) -> bool {
    format!("{ratio:.2}") == "1.00"
}

/// Returns names as a list: `a`, `b` and `c`.
pub(super) fn listed<S: AsRef<str>>(names: &[S]) -> String {
    let names: Vec<_> = names.iter().map(|it| it.as_ref().to_owned()).collect();
    match &*names {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        names => names.concat(),
    }
}

/// Formats a ratio as a factor.
pub(super) fn times(ratio: f64) -> String {
    match ratio {
        it if it < 10.0 => format!("{it:.2} times"),
        it if it < 100.0 => format!("{it:.1} times"),
        it => format!("{} times", grouped(it.round() as u64)),
    }
}

/// Returns the geometric mean of ratios; `None` if there are none.
pub(super) fn mean(ratios: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for ratio in ratios {
        sum += ratio.ln();
        count += 1.0;
    }
    (count > 0.0).then(|| f64::exp(sum / count))
}

/// Returns the largest of these numbers of threads that the cores run at the same time, or else the
/// smallest.
pub(super) fn most_threads(all: impl Iterator<Item = usize> + Clone, cores: usize) -> usize {
    let at_a_time = all.clone().filter(|&it| it <= cores).max();
    at_a_time.or_else(|| all.min()).unwrap_or(1)
}

/// Formats a ratio with two digits, or a dash for none.
pub(super) fn ratio_or_dash(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "–".to_owned(), |it| format!("{it:.2}"))
}

/// Formats a number with so many decimals, or a dash for none.
pub(super) fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |it| format!("{it:.digits$}"))
}

/// Formats microseconds as milliseconds, or a dash for none.
pub(super) fn millis(micros: Option<f64>) -> String {
    micros.map_or_else(|| "–".to_owned(), |it| format!("{:.3} ms", it / 1e3))
}

/// Formats nanoseconds with a suitable unit and one decimal below a microsecond.
pub(super) fn time(ns: f64) -> String {
    if ns < 1e3 {
        format!("{ns:.1} ns")
    } else {
        duration(ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_with_units() {
        assert_eq!([7, 1_234_567].map(grouped), ["7", "1 234 567"]);
        assert_eq!(
            [812, 1_240, 3_100_000, 2_000_000_000].map(duration),
            ["812 ns", "1.24 µs", "3.10 ms", "2.00 s"]
        );
        assert_eq!(
            [580_095, 999_600, 31_415_926, 1_234_000_000_000].map(duration),
            ["580 µs", "1.00 ms", "31.4 ms", "1 234 s"]
        );
        assert_eq!(
            [7.0, 163_334.0, 1_726_797.0].map(amount),
            ["7.00", "163 k", "1.73 M"]
        );
        assert_eq!(["a", "b", "c"].map(|it| listed(&[it])), ["a", "b", "c"]);
        assert_eq!(listed(&["a", "b", "c"]), "a, b and c");
        assert_eq!(
            [5.31, 999.9, 2_400.0].map(time),
            ["5.3 ns", "999.9 ns", "2.40 µs"]
        );
        assert_eq!([Some(0.5), None].map(ratio_or_dash), ["0.50", "–"]);
        assert_eq!(
            [0.5, 12.34, 1234.0].map(times),
            ["0.50 times", "12.3 times", "1 234 times"]
        );
    }

    #[test]
    fn ratios_are_averaged_as_factors() {
        assert_eq!(mean([0.5, 2.0]), Some(1.0));
        assert_eq!(mean([]), None);
        assert_eq!(
            [1, 2, 3].map(|cores| most_threads([2, 8].into_iter(), cores)),
            [2, 2, 2]
        );
        assert_eq!(most_threads([2, 8].into_iter(), 9), 8);
    }
}
