//! The places in the source that a model can break: sites of injected bugs, wakes, and flushes.

use core::panic::Location;

use crate::check;

/// Returns whether the model's [configuration](crate::check::Config) names this bug. If so, the
/// caller does something wrong on purpose.
///
/// `injected_bug!("name", "what is done wrong", killed_by = "a-property, suite/property")` stands
/// beside the line that it breaks. Sites that share a name are injected together. `killed_by` lists
/// properties; at least one of them must fail when the bug is injected. A property written without
/// a suite counts in every suite that reaches the site. A property written as `suite/property`
/// counts only in the suite that it names.
///
/// As shipped, the macro is the constant `false`. Under a checker, [`check::bugs`] lists each site
/// that was reached.
#[macro_export]
macro_rules! injected_bug {
    ($name:literal, $what:literal, killed_by = $killed_by:literal $(,)?) => {{
        static SITE: $crate::check::BugSite = $crate::check::BugSite {
            name: $name,
            what: $what,
            killed_by: $killed_by,
            file: file!(),
            line: line!(),
        };
        $crate::check::is_injected(&SITE)
    }};
}

/// Returns whether the model drops a flush here. If so, the caller does not issue the flush; or, if
/// it is about to make a durable write, it makes that write without durability.
#[track_caller]
pub fn is_flush_left_out() -> bool {
    check::drop_flush(Location::caller())
}

/// Returns whether the model leaves out the wake that the caller is about to issue.
/// [`WaitQueue`](crate::wait::WaitQueue) calls this before its own wakes, too.
#[inline]
#[track_caller]
pub fn is_wake_left_out() -> bool {
    check::drop_wake(Location::caller())
}
