//! The hooks through which a checker breaks code on purpose. Here they are constants, so the
//! compiler removes them from shipped code.

/// Returns whether a model injects the bug of this name: `if injected_bug!("name", "what is done
/// wrong", killed_by = "a-property, another") { … }`. As shipped, the macro is the constant
/// `false`.
#[cfg(not(spanlock_kernel_bugs))]
#[doc(hidden)]
#[macro_export]
macro_rules! injected_bug {
    ($name:literal, $what:literal, killed_by = $killed_by:literal $(,)?) => {
        false
    };
}

/// Returns whether the kernel injects the bug of this name, in a build with
/// `--cfg spanlock_kernel_bugs`.
#[cfg(spanlock_kernel_bugs)]
#[doc(hidden)]
#[macro_export]
macro_rules! injected_bug {
    ($name:literal, $what:literal, killed_by = $killed_by:literal $(,)?) => {
        $crate::is_injected($name)
    };
}

/// Returns whether the model drops a flush here. If so, the caller does not issue the flush; or, if
/// it is about to make a durable write, it makes that write without durability. As shipped, always
/// false.
#[inline(always)]
pub const fn is_flush_left_out() -> bool {
    false
}

/// Returns whether a model leaves out the fence here that waits for flushes of persistent memory.
/// As shipped, always false.
#[inline(always)]
pub const fn is_drain_left_out() -> bool {
    false
}

/// Returns whether a model leaves out the wake that the caller is about to issue. As shipped,
/// always false.
#[inline(always)]
pub const fn is_wake_left_out() -> bool {
    false
}
