//! Tokens: how a release finds the words of a hold, or its entry in the [gate](crate::gate).
//!
//! A hold is *small* if it is held by words, and *wide* if it is held by an entry. The two lowest
//! bits of a token tell its kind (S-I4 of [`crate::lock`]). A word's address ends in two zero bits,
//! so the kind takes their place.
//!
//! ```text
//!   63                                   2 1 0
//!  ┌──────────────────────────────────────┬───┐
//!  │ address of the only word             │0 0│  a small hold in one word
//!  │ address of the first word            │1 0│  a small hold, possibly in several words
//!  ├──────────────────────────────────────┴─┬─┤
//!  │ entry in the gate                      │1│  a wide hold
//!  └────────────────────────────────────────┴─┘
//! ```

use spanlock_range_lock::Token;

/// The bits of a token that tell its kind.
pub(crate) const KIND: usize = 0b11;
/// The kind of a small hold whose segments share one word. Releasing it needs no lookup.
pub(crate) const ONE_WORD: usize = 0b00;
/// The kind of any other small hold.
const WORDS: usize = 0b10;
/// The kind of a wide hold. Only the lowest bit tells this kind; the other bits are the entry.
const WIDE: usize = 0b01;

/// Returns the token of a small hold whose first word is at this address.
pub(crate) fn words_token(word: usize) -> Token {
    Token::new(word | WORDS)
}

/// Returns the token of a wide hold.
pub(crate) fn wide_token(entry: Token) -> Token {
    Token::new(entry.into_word() << 1 | WIDE)
}

/// The entry of a wide hold while the entry changes. Dropping this stores the hold's token, so the
/// token is right even if a waker panics during the change.
pub(crate) struct Changing<'a> {
    pub(crate) token: &'a mut Token,
    pub(crate) entry: Token,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        *self.token = wide_token(self.entry);
    }
}

/// The hold that a token stands for.
pub(crate) enum Holding {
    /// A small hold: the address of its first word.
    Words(usize),
    /// A wide hold: its entry.
    Wide(Token),
}

impl Holding {
    #[inline]
    pub(crate) fn of(token: Token) -> Self {
        let word = token.into_word();
        if word & WIDE == 0 {
            Holding::Words(word & !KIND)
        } else {
            Holding::Wide(Token::new(word >> 1))
        }
    }
}
