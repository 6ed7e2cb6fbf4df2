//! srl
