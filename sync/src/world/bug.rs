//! The hooks by which a checker breaks the code. Here they are constants, so that nothing of them
//! is left in shipped code.

/// Injects a bug where a model asks for it: `if injected_bug!("name", "what is done wrong",
/// killed_by = "a-property, another") { … }`. As shipped, the constant `false`.
#[doc(hidden)]
#[macro_export]
macro_rules! injected_bug {
    ($name:literal, $what:literal, killed_by = $killed_by:literal $(,)?) => {
        false
    };
}

/// Returns whether a model leaves out the flush, or the durability of the write, that the caller is
/// about to make. Never as shipped.
#[inline(always)]
pub const fn is_flush_left_out() -> bool {
    false
}

/// Returns whether a model leaves out the wake that the caller is about to make. Never as shipped.
#[inline(always)]
pub const fn is_wake_left_out() -> bool {
    false
}
