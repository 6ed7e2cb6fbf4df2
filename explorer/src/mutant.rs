//! Errors that the tests plant into the search, to see that its oracles find them.

/// Returns whether the tests have planted the error of this name. Constant `false` otherwise.
macro_rules! mutant {
    ($name:literal) => {{
        #[cfg(test)]
        let is_planted = $crate::mutant::is_planted($name);
        #[cfg(not(test))]
        let is_planted = false;
        is_planted
    }};
}

#[cfg(test)]
std::thread_local! {
    static PLANTED: core::cell::Cell<Option<&'static str>> = const { core::cell::Cell::new(None) };
}

/// Plants an error into the searches of this thread.
#[cfg(test)]
pub(crate) fn plant(name: Option<&'static str>) {
    PLANTED.set(name);
}

#[cfg(test)]
pub(crate) fn is_planted(name: &str) -> bool {
    PLANTED.get() == Some(name)
}
