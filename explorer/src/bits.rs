//! Values of locations.

/// A value that a location of 64 bits can hold.
pub trait Bits: Copy {
    /// The bits that values of the type use.
    const MASK: u64;
    /// Whether the values are signed numbers, for [`Op::SignedMax`](crate::Op::SignedMax).
    const IS_SIGNED: bool = false;

    /// Returns the bits of the value.
    fn bits(self) -> u64;

    /// Returns the value that has these bits.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! bits {
    ($($value:ty as $unsigned:ty)*) => {
        $(
            impl Bits for $value {
                const MASK: u64 = <$unsigned>::MAX as u64;
                const IS_SIGNED: bool = <$value>::MIN != 0;

                fn bits(self) -> u64 {
                    self as $unsigned as u64
                }

                fn from_bits(bits: u64) -> Self {
                    bits as $value
                }
            }
        )*
    };
}

bits!(u8 as u8 u16 as u16 u32 as u32 u64 as u64 usize as usize);
bits!(i8 as u8 i16 as u16 i32 as u32 i64 as u64 isize as usize);

impl Bits for bool {
    const MASK: u64 = 1;

    fn bits(self) -> u64 {
        u64::from(self)
    }

    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
}

impl<T> Bits for *mut T {
    const MASK: u64 = u64::MAX;

    fn bits(self) -> u64 {
        self.expose_provenance() as u64
    }

    fn from_bits(bits: u64) -> Self {
        core::ptr::with_exposed_provenance_mut(bits as usize)
    }
}
