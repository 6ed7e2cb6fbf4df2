//! The places in the source that a model can break: sites of injected bugs, wakes, and flushes.

use core::panic::Location;

use crate::check;

/// Returns whether the caller must do something wrong: true if the model's
/// [configuration](crate::check::Config) names this bug.
///
/// `injected_bug!("name", "what is done wrong", killed_by = "a-property, suite/property")` stands
/// beside the line that it breaks. Several sites may share a name; they are injected together.
/// `killed_by` lists properties; at least one of them must fail. A bare property counts in every
/// suite that reaches the site.
///
/// As shipped the macro is the constant `false`. Under a checker each site that is reached is in
/// the list of [`check::bugs`].
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

/// Returns whether the model leaves out the flush, or the durability of the write, that the caller
/// is about to make.
#[track_caller]
pub fn is_flush_left_out() -> bool {
    check::drop_flush(Location::caller())
}

/// Returns whether the model leaves out the wake that the caller is about to make, as it can leave
/// out those of a [`WaitQueue`](crate::wait::WaitQueue).
#[inline]
#[track_caller]
pub fn is_wake_left_out() -> bool {
    check::drop_wake(Location::caller())
}
