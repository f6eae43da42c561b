//! The loss of a token.
