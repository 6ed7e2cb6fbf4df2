//! Bugs that a model can inject.

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
#[doc(hidden)]
#[macro_export]
macro_rules! injected_bug {
    ($name:literal, $what:literal, killed_by = $killed_by:literal $(,)?) => {
        false
    };
}

#[cfg(any(spanlock_loom, spanlock_shuttle))]
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
